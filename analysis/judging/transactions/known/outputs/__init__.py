"""What Kafka is known to do to processors, whose inputs and outputs then do not match."""
