"""Checks of share groups (KIP-932)."""
