"""Faults that hit groups, transactions and their coordinators, besides all other faults."""
