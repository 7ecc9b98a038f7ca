"""What clients and operators ask of brokers."""
