"""Sending transaction markers to the leaders of a transaction's partitions."""
