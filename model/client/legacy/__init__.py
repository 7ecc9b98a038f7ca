"""The old consumer, whose groups live in ZooKeeper (Kafka 0.7 to 1.1): see the client's README."""
