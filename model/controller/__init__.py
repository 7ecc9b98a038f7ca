"""Controllers of a cluster's metadata: KRaft's, and that of a ZooKeeper cluster."""
