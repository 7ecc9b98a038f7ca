"""Share groups in the group coordinator (KIP-932)."""
