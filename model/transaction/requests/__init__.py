"""What clients and brokers ask the transaction coordinator."""
