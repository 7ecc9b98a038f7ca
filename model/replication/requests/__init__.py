"""The requests about partitions: produce, fetch, offsets, deletion; and those that wait."""
