"""Replication: the partitions of one broker, their leaders and their followers."""
