"""Judges of share groups (KIP-932)."""
