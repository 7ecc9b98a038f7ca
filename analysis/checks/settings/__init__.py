"""What settings were in force where, as checks ask."""
