"""Kafka Streams: topologies, their operators and stores, and the runtime that is a client."""
