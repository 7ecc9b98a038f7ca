"""A ZooKeeper ensemble and its client library: znode tree, sessions, watches, on the Raft core."""
