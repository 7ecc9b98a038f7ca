"""Access to ZooKeeper: the client, the znodes, the controller's reads and writes (kafka.zk)."""
