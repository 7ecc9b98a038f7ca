"""Faults as data, their injection, the nemesis that draws them, and the no-loss budget."""
