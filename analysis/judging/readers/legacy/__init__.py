"""Old consumers, which keep their groups in ZooKeeper."""
