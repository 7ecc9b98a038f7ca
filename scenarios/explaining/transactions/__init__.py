"""Transactions in words, and the chains of their anomalies."""
