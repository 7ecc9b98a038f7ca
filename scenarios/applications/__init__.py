"""A user's own application on the simulated clients: ``kafkasim run SCENARIO --app FILE``."""
