"""Chains: events one shortly after the other, each with a disturbance."""
