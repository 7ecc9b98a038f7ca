"""What is replicated: the log with its high watermark, and the snapshots below it."""
