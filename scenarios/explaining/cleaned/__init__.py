"""Removed records of compacted topics: the cleaning, and the later record of the key."""
