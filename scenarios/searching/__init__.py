"""Swarm search: scenarios drawn from seeds, and runs of them until one fails."""
