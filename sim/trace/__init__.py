"""The trace of a run: recorded facts, their digest, Parquet tables and the manifest."""
