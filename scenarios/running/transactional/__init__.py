"""Applications that use transactions: producers and processors."""
