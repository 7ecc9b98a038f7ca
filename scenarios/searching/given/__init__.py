"""Faults for a scenario that a user gives: the cluster, the clients and the claim are theirs."""
