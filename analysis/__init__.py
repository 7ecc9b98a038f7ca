"""What it meant: fleets of runs on Spark, checks, verdicts, metrics and plots."""
