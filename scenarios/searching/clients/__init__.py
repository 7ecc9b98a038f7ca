"""What happens to groups, to transactions and to their coordinators, beside all other faults."""
