"""Topics that were created again under their names."""
