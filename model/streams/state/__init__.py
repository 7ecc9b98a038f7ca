"""Stores on disk: directories, checkpoint files, and reading changelogs."""
