"""What the judges of harm know of a run: clocks and limits, logs over time, and disturbances."""
