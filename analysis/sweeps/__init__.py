"""Sweeps and comparisons: what a setting buys, what it costs, and how sure that is."""
