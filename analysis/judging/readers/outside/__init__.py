"""What groups keep outside of Kafka: results in a database, and the counts of an audit."""
