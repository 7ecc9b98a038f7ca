"""Judges of transactions: what applications began, what the logs hold, and what readers got."""
