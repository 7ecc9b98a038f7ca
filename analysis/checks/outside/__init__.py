"""What applications store outside of Kafka, and what an audit counts."""
