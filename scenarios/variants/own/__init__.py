"""Variants of a user's own: classes of rules in a file outside of this repository."""
