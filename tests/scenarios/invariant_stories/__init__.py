"""Stories of the invariants, a family a file: facts that keep one, and facts that break it."""
