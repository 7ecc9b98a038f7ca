"""The transactional half of the producer: Kafka's TransactionManager and its requests."""
