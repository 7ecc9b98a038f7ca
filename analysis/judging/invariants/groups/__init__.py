"""Who owns partitions, and who is in a generation of a group."""
