"""A Connect cluster: workers that form a group and share connectors and tasks (KIP-415)."""
