"""A group that changes its protocol with members in it, and classic members of consumer groups."""
