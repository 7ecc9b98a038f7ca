"""The consumer group protocol of KIP-848: assignment by the coordinator, member by member."""
