"""Where the scenario of a seed comes from, and faults that wait for what a variant decides."""
