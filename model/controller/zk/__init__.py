"""The controller of a cluster that keeps its metadata in ZooKeeper (kafka.controller)."""
