"""The exit codes of ``kafkasim``; `kafkasim --help` says what each means."""

OK = 0
CRASH = 1
USAGE = 2
SAFETY = 10
LIVENESS = 11
NONDETERMINISM = 12
STOPPED = 130
"""The exit code after Ctrl-C, as a shell has it."""
