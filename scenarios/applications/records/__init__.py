"""What records carry: keys, values and headers, and how applications turn them into bytes."""
