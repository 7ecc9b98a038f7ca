"""Kafka's requests as the model's messages, and the model's responses as Kafka's, API by API."""
