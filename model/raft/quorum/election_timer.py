"""The timer of elections. A voter has one, whose meaning depends on its role.

It is the election timeout (Unattached, Prospective, Candidate, Resigned), the backoff after a lost
election (Candidate) or the fetch timeout (Follower). Observers have none.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.quorum.voters import VoterSets

ELECTION_TIMER = (LANE, "election")


class ElectionTimer:
    """Calls ``on_timeout(now)`` when the timeout ends. Times are in microseconds."""

    __slots__ = ("_context", "_on_timeout", "_voters")

    def __init__(
        self, context: RaftContext, voters: VoterSets, on_timeout: Callable[[int], None]
    ) -> None:
        self._context = context
        self._voters = voters
        self._on_timeout = on_timeout

    @property
    def deadline(self) -> int | None:
        """When the timeout ends; None if it is not armed."""
        return self._context.timers.deadline(ELECTION_TIMER)

    def cancel(self) -> None:
        """Disarm the timer."""
        self._context.timers.cancel(ELECTION_TIMER)

    def await_fetch(self, now: int, timeout_us: int | None = None) -> None:
        """(Re)start the fetch timeout of a voter, ``controller.quorum.fetch.timeout.ms`` long."""
        if self._voters.is_voter:
            self._arm(now + (self._context.fetch_timeout_us if timeout_us is None else timeout_us))

    def await_election(self, now: int, deadline: int | None = None, resigned: bool = False) -> None:
        """Start the election timeout of a voter, drawn from one to two times its setting.

        ``resigned``: a leader that resigns waits too, even if it is no voter any more.
        """
        if not (self._voters.is_voter or resigned):
            return
        if deadline is None:
            base_us = self._context.config.controller_quorum_election_timeout_ms * 1000
            deadline = now + base_us + int(self._context.process.rng.random() * base_us)
        self._arm(deadline)

    def shorten(self, now: int, timeout_us: int) -> None:
        """End the timeout after ``timeout_us``, unless it ends earlier anyway."""
        deadline = self.deadline
        if deadline is None or deadline > now + timeout_us:
            self.await_fetch(now, timeout_us)

    def _arm(self, deadline: int) -> None:
        self._context.timers.arm(ELECTION_TIMER, deadline, LANE, self._on_timeout)
