"""The commands that need Spark, which they import only when they run."""
