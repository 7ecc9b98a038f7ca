"""A consumer's membership in its group: finding the coordinator, joining, heartbeats, commits."""
