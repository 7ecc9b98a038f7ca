"""STALESERVE: a broker that lost a role gets the change in time, and stops serving the role."""
