"""Variants of share groups (KIP-932)."""
