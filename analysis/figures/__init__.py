"""What runs amount to: measures of many runs by SQL, Kafka's metrics and timelines of one."""
