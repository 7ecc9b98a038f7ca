"""Files that a scenario names: a broker's server.properties, a user's application."""
