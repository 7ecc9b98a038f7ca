"""The parts of an active KRaft controller: each returns records and responses."""
