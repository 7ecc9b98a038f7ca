"""Hosts: the machine that a process runs on, its life, the lanes and the effects of the process."""
