"""The common state of the judges of harm: clocks and limits, logs over time, and disturbances."""
