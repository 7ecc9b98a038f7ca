"""Swarm search: draws a scenario from each seed and runs it, until a seed fails."""
