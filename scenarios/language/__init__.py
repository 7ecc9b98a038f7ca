"""The scenario language: TOML tables, their checks, and the built-in scenarios."""
