"""One partition: its role, its ISR, what waits for it; and the table of all partitions."""
