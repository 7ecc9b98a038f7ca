"""The network: TCP connections over a topology, their set-up, and the faults of links."""
