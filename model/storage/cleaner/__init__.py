"""The log cleaner: keeps of each key of a compacted topic the last record (Kafka: LogCleaner)."""
