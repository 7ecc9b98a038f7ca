"""Judges of groups besides the delivery of records: order, commits, resets, deleted records."""
