"""What keeps a healed cluster from its end: work under way, and standstills."""
