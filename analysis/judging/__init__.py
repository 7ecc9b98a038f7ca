"""Judges of a run: invariants, delivery anomalies, observations, progress, and the verdict."""
