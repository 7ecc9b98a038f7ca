"""Schedules of groups: the records of ``__consumer_offsets`` of real Kafka and of the model."""
