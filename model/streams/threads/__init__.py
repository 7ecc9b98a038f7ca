"""Stream threads: the loop, rebalances, commits, and what follows from errors."""
