"""Calls of an operator, each with the admin client of a run."""
