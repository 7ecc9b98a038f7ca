"""Facts of share groups (KIP-932)."""
