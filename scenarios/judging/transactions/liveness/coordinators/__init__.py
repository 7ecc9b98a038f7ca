"""Stalls of transactions that rest on what their coordinators had loaded."""
