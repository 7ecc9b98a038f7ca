"""Which task runs where: what the leader of the group decides, and what members tell it."""
