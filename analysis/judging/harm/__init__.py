"""Judges of needless harm: changes that cost availability, and waits that do not end."""
