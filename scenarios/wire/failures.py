"""What is wrong with a session, a command to it, or its journal; the message is one line."""


class SessionError(ValueError):
    """A session cannot start, or a command to it cannot be done."""


class JournalError(ValueError):
    """A journal cannot be read; the message names file, line and what is wrong."""
