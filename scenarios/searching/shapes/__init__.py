"""Shapes: a few faults close together, and the focus that they use."""
