"""One replica's log: its segments, leader epochs, producers, recovery and retention."""
