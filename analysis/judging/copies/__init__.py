"""Judges of records that exist twice although Kafka promises that they exist once."""
