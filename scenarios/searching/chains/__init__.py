"""Chains: events one shortly after the other, each while something else is disturbed."""
