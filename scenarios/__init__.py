"""Building, running, judging and showing scenarios, and the command line."""
