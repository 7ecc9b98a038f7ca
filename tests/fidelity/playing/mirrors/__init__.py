"""Schedules of two clusters with MirrorMaker 2 between them, on real Kafka and on the model."""
