"""Checks of waits that must end: of producers, of brokers that stop, of high watermarks."""
