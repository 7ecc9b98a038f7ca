"""The online invariants: they see all hosts and judge while the run goes on."""
