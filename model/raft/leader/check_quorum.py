"""Check quorum: a leader without fetches of a majority resigns (KAFKA-15489).

Models LeaderState.updateCheckQuorumForFollowingVoter and its timer. Every Fetch or FetchSnapshot of
a voter counts; the timer starts anew once a majority, with the leader itself, has fetched.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.raft.quorum.voters import VoterSets

CHECK_QUORUM_TIMER = (LANE, "check-quorum")


class CheckQuorum:
    """Calls ``on_lost(now)`` if no majority has fetched for one and a half fetch timeouts."""

    __slots__ = ("_context", "_on_lost", "_voters")

    def __init__(
        self, context: RaftContext, voters: VoterSets, on_lost: Callable[[int], None]
    ) -> None:
        self._context = context
        self._voters = voters
        self._on_lost = on_lost

    def restart(self, now: int) -> None:
        """Start the timer anew; a leader without other voters has none."""
        timeout_us = self._context.rules.check_quorum_us(self._context.fetch_timeout_us)
        if timeout_us is not None and self._voters.others:
            self._context.timers.arm(CHECK_QUORUM_TIMER, now + timeout_us, LANE, self._on_lost)

    def cancel(self) -> None:
        """Stop the timer: the leadership ended."""
        self._context.timers.cancel(CHECK_QUORUM_TIMER)

    def fetched(self, role: Leader, replica: tuple[int, str], now: int) -> bool:
        """Count the fetch of a voter in this epoch; return whether ``replica``, (id, directory id),
        is one."""
        voter, directory_id = replica
        known = self._voters.directories.get(voter)
        if voter not in role.end_offsets or known not in ("", directory_id):
            return False
        role.fetched_voters[voter] = True
        voters = len(self._voters.voters)
        needed = voters // 2 + (0 if self._voters.is_voter else 1)  # the leader counts if it votes
        if len(role.fetched_voters) >= needed:
            role.fetched_voters.clear()
            self.restart(now)
        return True
