"""Schedules of transactions: ``__transaction_state`` and markers of real Kafka and the model."""
