"""The server-side assignors of consumer groups (KIP-848)."""
