"""Stalls of transactions that a coordinator has loaded or decided, and nobody ends."""
