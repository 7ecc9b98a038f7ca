"""What the judge of consumer groups (KIP-848) knows of removals and of topics."""
