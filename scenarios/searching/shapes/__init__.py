"""Shapes of trouble, and the focus that they draw with."""
