"""Scenarios about one part of Kafka: all of their clients use it, and it is struck again and again."""
