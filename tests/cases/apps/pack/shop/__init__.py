"""A package of an application."""
