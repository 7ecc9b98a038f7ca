"""What a run was like for those who used its cluster."""
