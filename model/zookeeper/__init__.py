"""A ZooKeeper ensemble and its client library; the Raft core replicates the ensemble's log."""
