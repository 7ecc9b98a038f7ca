"""The simulated world: time, hosts, network, disks, faults, applications and the trace."""
