"""What the ZooKeeper controller does about each kind of change and request."""
