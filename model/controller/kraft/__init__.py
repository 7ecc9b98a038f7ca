"""The controller of a KRaft cluster (org.apache.kafka.controller)."""
