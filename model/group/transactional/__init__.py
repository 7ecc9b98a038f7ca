"""Offsets that a transaction commits with its records (KIP-98, KIP-447)."""
