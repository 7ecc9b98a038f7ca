"""The decisions of KRaft that were wrong once, or that a KIP changed, as named methods.

A variant overrides one of them: B39 ``check_quorum_us``, B41 ``restart_role``, B42
``persist_vote_before_reply`` and ``must_flush_before_fetch``, B43 ``pre_vote``.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Any

from kafkasim.model.effects import Barrier
from kafkasim.model.raft.quorum.election_state import ElectionState, QuorumStateStore
from kafkasim.model.raft.quorum.majority import majority_offset


class RoleName(Enum):
    """The roles of a replica; the value is the name that the trace shows."""

    UNATTACHED = "unattached"
    PROSPECTIVE = "prospective"
    CANDIDATE = "candidate"
    LEADER = "leader"
    FOLLOWER = "follower"
    RESIGNED = "resigned"


class RaftRules:
    """The rules of the modelled Kafka."""

    def pre_vote(self) -> bool:
        """Return whether a voter asks for pre-votes before it raises the epoch (KIP-996)."""
        return True

    def lost_candidate_backs_off(self, timed_out: bool) -> bool:
        """Return whether a candidate waits for a random time before it tries again.

        ``timed_out``: its election timeout ended; it tries again at once. Else a majority refused
        it. Then it waits for longer each time, up to controller.quorum.election.backoff.max.ms.
        """
        return not timed_out

    def grants_vote(
        self, role: RoleName, leader: int, voted: int, candidate: int, up_to_date: bool
    ) -> bool:
        """Return whether a voter grants a vote in its own epoch (KIP-595).

        ``leader`` and ``voted`` are −1 for none; ``up_to_date`` says that the candidate's log is at
        least as long as the voter's. A voter refuses if it knows the leader of the epoch or voted
        for another candidate. A repeated request of the same candidate is granted again.
        """
        if leader != -1 or role in (RoleName.LEADER, RoleName.RESIGNED):
            return False
        if voted != -1:
            return voted == candidate
        return up_to_date

    def pre_vote_grant(self, role: RoleName, has_fetched: bool, up_to_date: bool) -> bool:
        """Return whether a voter grants a pre-vote (KIP-996, EpochState.canGrantVote).

        A leader refuses, and so does a follower that has fetched from its leader: the present epoch
        works.
        """
        if role is RoleName.LEADER or (role is RoleName.FOLLOWER and has_fetched):
            return False
        return up_to_date

    def persist_vote_before_reply(
        self, store: QuorumStateStore, state: ElectionState, out: list[Any]
    ) -> None:
        """Make the election state durable before anything that depends on it leaves."""
        out.append(Barrier((store.write(state),)))

    def high_watermark(self, end_offsets: Iterable[int], epoch_start: int, current: int) -> int:
        """Return the leader's high watermark; ``current`` is −1 while it is unknown.

        It rises only once a majority holds a record of the leader's own epoch (KAFKA-12619), which
        begins at ``epoch_start``. It never falls.
        """
        reached = majority_offset(end_offsets)
        return reached if reached > epoch_start and reached > current else current

    def may_change_voters(self, own_epoch_committed: bool) -> bool:
        """Return whether a leader may add or remove a voter (KIP-853).

        Only once a record of its own epoch is committed. Otherwise two leaders in a row may each
        add a voter, and their two majorities need not overlap (a fault in the Raft thesis).
        """
        return own_epoch_committed

    def updates_fixed_voters(self) -> bool:
        """Return whether a leader serves UpdateRaftVoter although the voters may not change.

        4.1's keeps what it is told in memory, for a later kraft.version (KAFKA-16538); 4.0's
        refuses it.
        """
        return False

    def high_watermark_completes_fetch(self) -> bool:
        """Return whether a higher high watermark answers a parked Fetch (KIP-1166).

        In 4.0 it does not: the Fetch waits for records or for its 500 ms, so a follower may learn
        of the last commit only with the next append, the no-op record at the latest.
        """
        return False

    def writes_snapshot_refusals(self) -> bool:
        """Return whether a follower can read why its FetchSnapshot is refused.

        Up to 4.2 it cannot: a refusal lacks unalignedRecords, which must not be null
        (RaftUtil.singletonFetchSnapshotResponse), so the request handler answers
        UNKNOWN_SERVER_ERROR in its place, without the leader and its epoch.
        """
        return False

    def leader_end_offset(self, log_end_offset: int, flushed_offset: int, alone: bool) -> int:
        """Return how far the leader counts its own log (KafkaRaftClient.flushLeaderLog).

        The end of the log counts before the flush. Kafka's Raft thread then waits for the flush, so
        it counts the other voters' Fetches behind it. ``alone``, without other voters, the leader
        commits before its log is durable, and a power loss within the flush undoes that.
        """
        return log_end_offset if alone else flushed_offset

    def must_flush_before_fetch(self, voter: bool) -> bool:
        """Return whether fetched records are flushed before the next Fetch acknowledges them."""
        return voter

    def max_fetch_wait_ms(self, fetch_timeout_us: int) -> int:
        """Return how long a leader may hold a Fetch back that finds no records.

        It is a constant, whatever the fetch timeout (KafkaRaftClient.MAX_FETCH_WAIT_MS).
        """
        return 500

    def check_quorum_us(self, fetch_timeout_us: int) -> int | None:
        """Return how long a leader leads without fetches of a majority (KAFKA-15489); None: for
        ever."""
        return fetch_timeout_us * 3 // 2

    def restart_role(self, stored: ElectionState, node_id: int, last_log_epoch: int) -> RoleName:
        """Return the role of a replica that starts with this durable state.

        The leader of the stored epoch resigns: if it led on, it could write a second record at an
        offset whose first one a follower has (KAFKA-10527). Who voted for itself is a candidate
        again, also if it lost: a follower keeps its vote, which is looked at before the leader
        (QuorumState.initialize; up to 3.9 a follower forgets its vote).
        """
        if stored.epoch < last_log_epoch:
            return RoleName.UNATTACHED
        if stored.leader == node_id:
            return RoleName.RESIGNED
        if stored.voted == node_id and (stored.leader == -1 or self.follower_keeps_vote()):
            return RoleName.CANDIDATE
        return RoleName.UNATTACHED if stored.leader == -1 else RoleName.FOLLOWER

    def follower_keeps_vote(self) -> bool:
        """Return whether a follower's durable state has its vote of the epoch (FollowerState)."""
        return True
