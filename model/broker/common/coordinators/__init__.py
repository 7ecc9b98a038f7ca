"""The coordinators of a broker, by the internal topics that hold their state."""
