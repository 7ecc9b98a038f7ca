"""Members of share groups as applications (KIP-932)."""
