"""The parts of a broker that do not depend on where its metadata comes from."""
