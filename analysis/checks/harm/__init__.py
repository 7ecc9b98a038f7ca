"""Checks of needless harm (analysis/judging/README.md)."""
