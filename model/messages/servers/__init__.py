"""What servers ask of each other: brokers, controllers, the quorum, the ZooKeeper ensemble."""
