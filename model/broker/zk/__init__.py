"""A broker that obeys a controller whose state lies in ZooKeeper."""
