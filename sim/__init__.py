"""The simulator: time, hosts, network, disks, faults, applications and the trace."""
