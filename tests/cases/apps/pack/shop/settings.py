"""What the worker reads."""

TOPIC = "orders"
