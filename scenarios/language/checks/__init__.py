"""Checks of a scenario across its tables: names that must exist, settings that must agree."""
