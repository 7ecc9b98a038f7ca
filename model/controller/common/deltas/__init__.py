"""Changes of the metadata image: by committed records, or by a snapshot that replaces it."""
