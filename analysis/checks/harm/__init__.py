"""Checks of needless harm (scenarios/judging/README.md)."""
