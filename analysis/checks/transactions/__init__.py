"""Checks of transactions, and the views that they read."""
