"""From the files that a user of Kafka has to a scenario."""
