"""How Spark is started here: which Java, which settings, what its workers have imported."""
