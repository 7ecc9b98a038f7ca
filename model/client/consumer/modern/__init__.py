"""A consumer's membership in a group of the consumer protocol (KIP-848)."""
