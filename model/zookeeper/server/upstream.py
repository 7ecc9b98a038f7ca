"""The port between a server's clients and the ensemble's leader.

A server that leads implements it by :class:`EnsembleLeader`, a server that follows by
:class:`Learner`; the server's :class:`ClientService` cannot tell which of them it has.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Done = Callable[[int, int], None]  # (answer, now)


class Upstream(Protocol):
    """The leader of the epoch, as one server reaches it: in the same process or over a link."""

    def propose(self, record: Any, now: int) -> None:
        """Ask for a record in the log; the answer follows when the record is applied."""

    def revalidate(self, session_id: int, now: int, done: Done) -> None:
        """Attach a session to this server; ``done(timeout_ms, now)``, with 0 if it is not open."""

    def sync(self, now: int, done: Done) -> None:
        """Ask for the last zxid that the leader has proposed; ``done(zxid, now)``."""

    def heard_from(self, session_id: int, now: int) -> None:
        """Take note that the client of a session is alive."""
