"""One fold of a run's facts into typed timelines, which all promises read."""
