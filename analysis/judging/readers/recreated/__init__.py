"""Topics that were created again under their names, as readers see them."""
