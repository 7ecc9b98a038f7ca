"""Faults for a user's scenario: cluster, clients and claim are the user's."""
