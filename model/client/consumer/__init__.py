"""The consumer: poll(), positions, fetches, and its membership in a group."""
