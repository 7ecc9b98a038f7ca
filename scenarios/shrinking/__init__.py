"""Shrink the scenario of a failed run, and keep the failures that a search finds."""
