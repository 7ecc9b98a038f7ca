"""The records of consumer groups, their replay, and the writer that appends and applies them."""
