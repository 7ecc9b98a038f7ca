"""What other draws meet hardly ever: steps of clients, internal topics, clocks, old knowledge."""
