"""What keeps a healed cluster with transactions from its end: work under way, and standstills."""
