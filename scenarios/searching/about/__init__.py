"""Scenarios about one part of Kafka: all their clients use it, and are struck again and again."""
