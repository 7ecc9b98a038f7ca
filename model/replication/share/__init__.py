"""The partition leader's side of share groups (KIP-932): kafka.server.share."""
