"""``make bench``, the part that judges: seconds and memory as facts grow, beside DuckDB."""
