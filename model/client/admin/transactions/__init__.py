"""What an operator asks about transactions (KIP-664, KIP-588)."""
