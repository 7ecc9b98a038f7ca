"""What Kafka itself can do to transactions, though nothing was lost."""
