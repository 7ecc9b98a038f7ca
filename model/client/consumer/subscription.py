"""Subscription, assignment and positions of a consumer: Kafka's SubscriptionState."""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import TYPE_CHECKING

from kafkasim.model.client.net.metadata import NO_LEADER
from kafkasim.model.messages import FetchPartition
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.client.net.metadata import LeaderAndEpoch


class FetchState(Enum):
    """What a partition needs before it can be fetched (SubscriptionState.FetchStates).

    INITIALIZING     -> FETCHING | AWAIT_VALIDATION (committed offset), AWAIT_RESET (none)
    FETCHING         -> AWAIT_VALIDATION (new leader), AWAIT_RESET (offset out of range)
    AWAIT_VALIDATION -> FETCHING, AWAIT_RESET (the leader's log shares nothing with the position)
    AWAIT_RESET      -> FETCHING (ListOffsets answered, or a seek)
    """

    INITIALIZING = "INITIALIZING"
    AWAIT_RESET = "AWAIT_RESET"
    AWAIT_VALIDATION = "AWAIT_VALIDATION"
    FETCHING = "FETCHING"


class TopicPartitionState:
    """One assigned partition (SubscriptionState.TopicPartitionState)."""

    __slots__ = (
        "asked",
        "buffered",
        "fetched_us",
        "high_watermark",
        "last_stable_offset",
        "leader",
        "offset_epoch",
        "paused",
        "pending_revocation",
        "position",
        "preferred_replica",
        "preferred_until_us",
        "reset_strategy",
        "retry_at",
        "state",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.state = FetchState.INITIALIZING
        self.position = -1  # the next offset to return; −1 while there is none
        self.offset_epoch = -1  # leader epoch of the record before the position; −1 unknown
        self.leader = NO_LEADER  # to fetch from; the metadata's as of the position's last check
        self.reset_strategy = ""  # in AWAIT_RESET: earliest or latest
        self.high_watermark = -1  # −1 until a fetch response has named it
        self.last_stable_offset = -1  # likewise
        self.fetched_us = -1  # when a response last told of the partition; −1: none has
        self.asked = FetchPartition(tp, "", -1, -1, -1, -1, 0)  # in the last fetch; this: in none
        self.buffered = False  # a fetched response waits to be polled
        self.paused = False  # by the application
        self.pending_revocation = False
        self.retry_at = 0  # when the next reset or validation may be sent (nextRetryTimeMs)
        self.preferred_replica = -1  # the node that the leader named (KIP-392), −1 for none
        self.preferred_until_us = 0

    def clear_preferred_replica(self) -> bool:
        """Fetch from the leader again; return whether that is a change."""
        preferred, self.preferred_replica = self.preferred_replica, -1
        return preferred >= 0


class SubscriptionState:
    """Topics, assignment and positions of one consumer."""

    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ()
        self.by_pattern = False  # the topics are those that match a pattern
        self.subscription_pattern: str | None = None  # that the coordinator matches (KIP-848)
        self.auto_assigned = False  # by the group, not by assign()
        self.assignment: dict[TopicPartition, TopicPartitionState] = {}
        self.version = 0  # counts the assignments
        self.fetchable_version = 0  # counts the changes of what may be fetched, and where
        self.pauses = False  # whether the application has ever paused a partition
        self.has_all_positions = True  # False: some partition may not be FETCHING

    @property
    def kind(self) -> str:
        """What the application has chosen, "" for nothing (SubscriptionState.SubscriptionType)."""
        if not self.auto_assigned:
            return "partitions" if self.assignment else ""
        if self.subscription_pattern is not None:
            return "subscription pattern"
        return "pattern" if self.by_pattern else "topics"

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Replace the assignment; partitions that stay keep their state."""
        old = self.assignment
        self.assignment = {tp: old.get(tp) or TopicPartitionState(tp) for tp in sorted(partitions)}
        self.version += 1
        self.has_all_positions = False

    def unsubscribe(self) -> None:
        """Forget the subscription and the assignment, whoever assigned it."""
        self.topics, self.subscription_pattern = (), None
        self.by_pattern = self.auto_assigned = False
        self.assign(())

    def initializing(self) -> list[TopicPartitionState]:
        """Return the partitions that have no position and wait for no reset."""
        initializing = FetchState.INITIALIZING
        return [state for state in self.assignment.values() if state.state is initializing]

    def seek(
        self,
        state: TopicPartitionState,
        offset: int,
        offset_epoch: int,
        leader: LeaderAndEpoch,
        validate: bool,
    ) -> None:
        """Take a position; with ``validate`` its epoch is checked with the leader first."""
        state.position = offset
        state.offset_epoch = offset_epoch
        state.reset_strategy = ""
        self.use_leader(state, leader, validate)

    def use_leader(
        self, state: TopicPartitionState, leader: LeaderAndEpoch, validate: bool
    ) -> None:
        """Fetch a position from a leader, after it has validated it if it can (validatePosition).

        Without the epoch of the record before the position there is nothing to validate.
        """
        state.leader = leader
        state.retry_at = 0
        self.fetchable_version += 1
        if validate and state.offset_epoch >= 0 and leader.epoch >= 0:
            state.state = FetchState.AWAIT_VALIDATION
            self.has_all_positions = False
        else:
            state.state = FetchState.FETCHING

    def validated(self, state: TopicPartitionState) -> None:
        """Fetch a position that the leader has validated (completeValidation)."""
        state.state = FetchState.FETCHING
        self.fetchable_version += 1

    def pause(self, state: TopicPartitionState, paused: bool) -> None:
        """Pause or resume a partition."""
        state.paused = paused
        self.fetchable_version += 1

    def request_reset(self, state: TopicPartitionState, strategy: str) -> None:
        """Give a position up for the first or last offset (requestOffsetReset).

        ``strategy`` is earliest or latest.
        """
        state.state = FetchState.AWAIT_RESET
        state.reset_strategy = strategy
        state.retry_at = 0
        self.has_all_positions = False
        self.fetchable_version += 1

    def update_has_all_positions(self) -> None:
        """Find out whether every partition can be fetched."""
        fetching = FetchState.FETCHING
        self.has_all_positions = all(s.state is fetching for s in self.assignment.values())

    def consumed(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return what may be committed: (position, epoch) of each valid position (allConsumed).

        A position that waits for its validation is not valid.
        """
        return {
            tp: (state.position, state.offset_epoch)
            for tp, state in self.assignment.items()
            if state.position >= 0 and state.state is FetchState.FETCHING
        }

    def mark_pending_revocation(self, partitions: Iterable[TopicPartition] | None = None) -> None:
        """Return no more records of partitions that are about to be revoked; None: of all."""
        for tp in self.assignment if partitions is None else partitions:
            self.assignment[tp].pending_revocation = True
        self.fetchable_version += 1

    def is_pending_revocation(self, tp: TopicPartition) -> bool:
        """Return whether a partition is assigned and about to be revoked."""
        state = self.assignment.get(tp)
        return state is not None and state.pending_revocation
