"""Choices between the values of an enumeration: each value gets a fair share of the seeds."""
