"""Historical bugs of Kafka as variants, by the part that they were in."""
