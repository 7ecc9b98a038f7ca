"""Kafka's distributed logic as processes that a simulator runs. Start with README.md."""
