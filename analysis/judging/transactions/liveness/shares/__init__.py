"""Share groups that stand still in a partition (KIP-932)."""
