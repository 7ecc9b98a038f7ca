"""What a run costs: the reference run beside bare simpy, CPU time by part, growth with size."""
