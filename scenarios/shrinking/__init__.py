"""Make the scenario of a failed run plain and small, and keep what a search finds."""
