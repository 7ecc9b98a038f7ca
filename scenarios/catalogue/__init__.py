"""The built-in scenarios: one TOML file each."""
