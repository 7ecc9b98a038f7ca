"""Fleets of runs on Spark, and what is made of stored runs: verdicts, metrics, pictures."""
