"""Who leads and who votes: roles, votes, the durable election state, the voter sets."""
