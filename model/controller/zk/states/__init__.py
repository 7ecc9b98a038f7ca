"""The state machines of partitions and replicas, elections, and the deletion of topics."""
