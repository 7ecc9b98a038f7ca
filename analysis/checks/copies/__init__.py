"""Checks of what exists twice although Kafka promises it once."""
