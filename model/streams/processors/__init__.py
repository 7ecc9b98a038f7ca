"""Kafka Streams' operators: one processor each, with the rules of Kafka 4.1."""
