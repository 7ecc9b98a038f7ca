"""Quotas of clients (KIP-13, KIP-219)."""
