"""What happens: clusters, workloads, fault scripts, invariants, the catalogue and the command line."""
