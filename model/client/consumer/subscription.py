"""What a consumer is subscribed to, owns, and where it stands: Kafka's SubscriptionState.

A partition's fetch state is a small automaton (SubscriptionState.FetchStates):

    INITIALIZING     -> FETCHING | AWAIT_VALIDATION (committed offset), AWAIT_RESET (none)
    FETCHING         -> AWAIT_VALIDATION (new leader epoch), AWAIT_RESET (offset out of range)
    AWAIT_VALIDATION -> FETCHING, AWAIT_RESET (truncated, nothing left in common)
    AWAIT_RESET      -> FETCHING (ListOffsets answered, or a seek)

Not modelled: pattern subscription, pause and resume by the application.
"""

from __future__ import annotations

from kafkasim.model.records import TopicPartition

INITIALIZING = "INITIALIZING"
AWAIT_RESET = "AWAIT_RESET"
AWAIT_VALIDATION = "AWAIT_VALIDATION"
FETCHING = "FETCHING"


class PartitionState:
    """One assigned partition (TopicPartitionState)."""

    __slots__ = (
        "asking",
        "buffered",
        "high_watermark",
        "leader_epoch",
        "offset_epoch",
        "pending_revocation",
        "position",
        "preferred_replica",
        "preferred_until_us",
        "retry_at",
        "state",
        "strategy",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.state = INITIALIZING
        self.position = -1  # the next offset to return; −1 while there is none
        self.offset_epoch = -1  # leader epoch of the record before the position; −1 unknown
        self.leader_epoch = -1  # the leader epoch for which the position is known to be valid
        self.strategy = ""  # AWAIT_RESET: earliest or latest
        self.high_watermark = -1
        self.buffered = False  # a fetched response waits to be polled
        self.pending_revocation = False
        self.asking = False  # a reset or validation is in flight
        self.retry_at = 0
        self.preferred_replica = -1  # where the leader sends us (KIP-392), until the lease is over
        self.preferred_until_us = 0

    def clear_preferred_replica(self) -> bool:
        """Go back to the leader; return whether that is a change."""
        preferred, self.preferred_replica = self.preferred_replica, -1
        return preferred >= 0

    def seek(self, offset: int, offset_epoch: int, leader_epoch: int, validate: bool) -> None:
        """Take a position; ``validate`` when its epoch must be checked with the leader first."""
        self.position = offset
        self.offset_epoch = offset_epoch
        self.leader_epoch = leader_epoch
        self.strategy = ""
        self.retry_at = 0
        self.state = AWAIT_VALIDATION if validate and offset_epoch >= 0 else FETCHING

    def await_reset(self, strategy: str) -> None:
        """Give the position up and ask the leader for the first or last offset."""
        self.state = AWAIT_RESET
        self.strategy = strategy
        self.retry_at = 0


class SubscriptionState:
    """Topics, assignment and positions of one consumer."""

    def __init__(self) -> None:
        self.topics: tuple[str, ...] = ()
        self.auto_assigned = False  # by the group, not by assign()
        self.assignment: dict[TopicPartition, PartitionState] = {}
        self.version = 0

    def assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Replace the assignment; partitions kept by assign() keep their state."""
        old = self.assignment
        self.assignment = {tp: old.get(tp) or PartitionState(tp) for tp in sorted(partitions)}
        self.version += 1

    def consumed(self) -> dict[TopicPartition, tuple[int, int]]:
        """Return (position, epoch) of all partitions with a valid position: what may be committed
        (allConsumed). One that waits for its validation has none."""
        return {
            tp: (state.position, state.offset_epoch)
            for tp, state in self.assignment.items()
            if state.position >= 0 and state.state is FETCHING
        }

    def mark_pending_revocation(self) -> None:
        """All partitions are about to be revoked: return nothing more from them."""
        for state in self.assignment.values():
            state.pending_revocation = True
