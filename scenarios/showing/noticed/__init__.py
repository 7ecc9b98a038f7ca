"""What the clients of a run noticed."""
