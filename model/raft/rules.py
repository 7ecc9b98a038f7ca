"""The decisions of KRaft that were wrong once, or that a KIP changed: RaftRules.

A variant overrides a method: B39 ``check_quorum_us``, B41 ``restart_role``, B42
``persist_vote_before_reply`` and ``must_flush_before_fetch``, B43 ``pre_vote``, its ping-pong
``pre_vote_grant``; Kafka HEAD's early count of the leader's own log ``leader_end_offset``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkasim.model.effects import Barrier
from kafkasim.model.raft.quorum.majority import majority_offset
from kafkasim.model.raft.quorum.quorum_state import ElectionState, QuorumStateStore

CANDIDATE, FOLLOWER, LEADER, PROSPECTIVE = "candidate", "follower", "leader", "prospective"
RESIGNED, UNATTACHED = "resigned", "unattached"


class RaftRules:
    """The rules of the modelled Kafka."""

    def pre_vote(self) -> bool:
        """Return whether a voter asks before it raises the epoch (KIP-996)."""
        return True

    def grants_vote(
        self, role: str, leader: int, voted: int, candidate: int, up_to_date: bool
    ) -> bool:
        """Return whether a voter grants a vote for its own epoch.

        ``leader`` and ``voted`` are −1 for none. A repeated request of the same candidate is
        granted again; who knows the epoch's leader or voted for another refuses.
        """
        if leader != -1 or role in (LEADER, RESIGNED):
            return False
        if voted != -1:
            return voted == candidate
        return up_to_date

    def pre_vote_grant(
        self, role: str, has_fetched: bool, has_high_watermark: bool, up_to_date: bool
    ) -> bool:
        """Return whether a voter would grant a vote (KIP-996, KAFKA-17641).

        A follower that has fetched from its leader, and a leader that has committed in its epoch,
        know that the epoch works and refuse.
        """
        if role == FOLLOWER and has_fetched:
            return False
        if role == LEADER and has_high_watermark:
            return False
        return up_to_date

    def persist_vote_before_reply(
        self, store: QuorumStateStore, state: ElectionState, out: list[Any]
    ) -> None:
        """Make the election state durable before anything that depends on it leaves."""
        out.append(Barrier((store.write(state),)))

    def high_watermark(self, end_offsets: Iterable[int], epoch_start: int, current: int) -> int:
        """Return the leader's high watermark; ``current`` is −1 while it is unknown.

        A majority must hold a record of the leader's own epoch (KAFKA-12619); it never falls.
        """
        reached = majority_offset(end_offsets)
        return reached if reached > epoch_start and reached > current else current

    def may_change_voters(self, own_epoch_committed: bool) -> bool:
        """Return whether a leader may add or remove a voter: once a record of its own epoch is
        committed, or else two majorities may not meet (KIP-853, the fault in Raft's thesis)."""
        return own_epoch_committed

    def high_watermark_completes_fetch(self) -> bool:
        """Return whether a parked Fetch is answered when the high watermark passes the one it knows
        (KIP-1166). In 4.0 it waits for new records or its 500 ms, so that a follower learns of the
        last commit with the next append: the no-op at the latest."""
        return False

    def leader_end_offset(self, log_end_offset: int, flushed_offset: int) -> int:
        """Return how far the leader counts its own log: what it has flushed."""
        return flushed_offset

    def must_flush_before_fetch(self, voter: bool) -> bool:
        """Return whether what was fetched is flushed before the next fetch acknowledges it."""
        return voter

    def check_quorum_us(self, fetch_timeout_us: int) -> int | None:
        """Return how long a leader may hear from no majority (KAFKA-15489); None is for ever."""
        return fetch_timeout_us * 3 // 2

    def restart_role(self, stored: ElectionState, node_id: int, last_log_epoch: int) -> str:
        """Return the role of a voter that starts with this durable state (KAFKA-10527)."""
        if stored.epoch < last_log_epoch:
            return UNATTACHED
        if stored.leader == node_id:
            return RESIGNED
        if stored.leader != -1:
            return FOLLOWER
        return CANDIDATE if stored.voted == node_id else UNATTACHED
