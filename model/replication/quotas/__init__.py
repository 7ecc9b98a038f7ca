"""Quotas that are measured as rates over sampled windows: replication throttles (KIP-73)."""
