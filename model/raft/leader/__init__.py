"""What only a leader does: append, serve fetches and snapshots, change voters, check its quorum."""
