"""One share partition: the state of its records, and what changes it (KIP-932)."""
