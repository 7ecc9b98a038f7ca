"""Worlds: other timers, changing voters, brokers that leave for good; drawn after the faults."""
