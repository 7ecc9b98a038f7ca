"""The states of a share partition and of its records, and which may follow which (KIP-932).

Models SharePartition.RecordState, InFlightState and SharePartitionState. A record is *available*
for delivery, *acquired* by one member, *acknowledged* (accepted) or *archived* (rejected, delivered
too often, or gone from the log). The last two are final.

A move that has to be persisted has two steps. :meth:`InFlightState.start` changes the state at
once and keeps the old one; :meth:`InFlightState.complete` drops or restores the old one when the
persister has answered. Between the two the record is *in transition*: nobody can acquire it.
"""

from __future__ import annotations

from enum import Enum, IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.replication.share.rules import ShareRules

EMPTY_MEMBER_ID = ""
"""The member of a record that nobody holds (Kafka: the zero uuid)."""


class RecordState(IntEnum):
    """The state of one record, by its number in the persisted batches."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4


AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ACKNOWLEDGED, ARCHIVED = RecordState.ACKNOWLEDGED, RecordState.ARCHIVED

FINAL = (ACKNOWLEDGED, ARCHIVED)

FOLLOWERS: dict[RecordState, tuple[RecordState, ...]] = {
    AVAILABLE: (ACQUIRED,),
    ACQUIRED: (AVAILABLE, ACKNOWLEDGED, ARCHIVED),
    ACKNOWLEDGED: (),
    ARCHIVED: (),
}
"""State to the states that may follow it (RecordState.validateTransition).

:meth:`InFlightState.archive` goes beyond the table: an available record whose log is gone.
"""


class SharePartitionState(Enum):
    """What a share partition can do."""

    EMPTY = "empty"  # the persisted state is not read yet
    INITIALIZING = "initializing"
    ACTIVE = "active"
    FAILED = "failed"  # the persisted state could not be read
    FENCED = "fenced"  # it was replaced or is not led any more


class InFlightState:
    """The state of a batch, or of one offset, that was fetched and is not forgotten yet.

    ``lock`` names the timer of the acquisition lock, None if nobody holds the record.
    """

    __slots__ = ("delivery_count", "lock", "member_id", "rollback", "state", "terminal")

    def __init__(
        self,
        state: RecordState,
        delivery_count: int,
        member_id: str,
        lock: LockTimeout | None = None,
    ) -> None:
        self.state = state
        self.delivery_count = delivery_count
        self.member_id = member_id
        self.lock = lock
        self.rollback: tuple[RecordState, int, str] | None = None
        self.terminal = False  # archived for good, also if a write that is under way fails

    def __repr__(self) -> str:
        return f"{self.state.name}/{self.delivery_count}/{self.member_id or '-'}"

    @property
    def in_transition(self) -> bool:
        """Whether the persister has yet to answer for the last move."""
        return self.rollback is not None

    def try_update(
        self, state: RecordState, count_change: int, most_deliveries: int, member_id: str
    ) -> bool:
        """Move to a state if the table allows it; return whether it does (tryUpdateState).

        A record that was delivered ``most_deliveries`` times is archived in place of becoming
        available, unless the delivery is taken back (``count_change`` −1).
        """
        if state is AVAILABLE and count_change >= 0 and self.delivery_count >= most_deliveries:
            state = ARCHIVED
        if state not in FOLLOWERS[self.state]:
            return False
        self.state = state
        if state is not ARCHIVED:
            self.delivery_count += count_change
        self.member_id = member_id
        return True

    def start(
        self, state: RecordState, count_change: int, most_deliveries: int, member_id: str
    ) -> bool:
        """Move as :meth:`try_update` does, and be able to return (startStateTransition)."""
        before = (self.state, self.delivery_count, self.member_id)
        if not self.try_update(state, count_change, most_deliveries, member_id):
            return False
        self.rollback = before
        return True

    def complete(self, commit: bool, most_deliveries: int, rules: ShareRules) -> None:
        """Keep the move, or return to what was before it (completeStateTransition).

        A record whose lock expired meanwhile does not return to its holder.
        """
        if self.rollback is None:  # given up: the records were split, or archived
            return
        before, self.rollback = self.rollback, None
        if commit or (self.terminal and rules.keeps_archived_on_rollback()):
            return
        self.state, self.delivery_count, self.member_id = before
        expired = self.lock is not None and self.lock.expired
        if self.state is ACQUIRED and expired and rules.frees_expired_on_rollback():
            self.try_update(AVAILABLE, 0, most_deliveries, EMPTY_MEMBER_ID)

    def archive(self) -> None:
        """Archive the record, whatever its state is: the log does not have it any more."""
        self.terminal = True
        self.state = ARCHIVED
        self.member_id = EMPTY_MEMBER_ID


class LockTimeout:
    """The acquisition lock of a member on a range of offsets (AcquisitionLockTimerTask)."""

    __slots__ = ("deadline_us", "expired", "first_offset", "last_offset", "member_id")

    def __init__(
        self, member_id: str, first_offset: int, last_offset: int, deadline_us: int
    ) -> None:
        self.member_id = member_id
        self.first_offset = first_offset
        self.last_offset = last_offset
        self.deadline_us = deadline_us
        self.expired = False
