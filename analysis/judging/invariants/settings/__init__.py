"""What settings were in force where, as invariants ask."""
