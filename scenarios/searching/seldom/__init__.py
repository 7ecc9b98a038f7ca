"""Cases that other draws hardly ever reach: steps of clients, internal topics, clocks."""
