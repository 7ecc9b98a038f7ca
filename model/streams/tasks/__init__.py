"""Tasks: which record is next, what becomes of outputs, states from creation to close."""
