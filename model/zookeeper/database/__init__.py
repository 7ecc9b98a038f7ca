"""The state that follows from the ensemble's log: znodes, sessions; and one server's watches."""
