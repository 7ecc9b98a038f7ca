"""Kafka's wire protocol in front of a simulated cluster: ``kafkasim serve`` and its journal."""
