"""The producer: accumulator, sender, producer ids and sequences, partitioner."""
