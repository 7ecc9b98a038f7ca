"""Checks and views of compacted topics."""
