"""A member of a consumer group (ConsumerGroupMember, MemberState): a value, replaced as a whole.

    STABLE                 owns what its epoch's target assignment gives it
    UNREVOKED_PARTITIONS   was told to give partitions up, and has not confirmed it
    UNRELEASED_PARTITIONS  is at the target epoch, and some of its partitions are still others'
    UNKNOWN                a later version of Kafka wrote the state; it rejoins with nothing

In every state the member owns ``assigned`` and ``revoking`` until it has confirmed the revocation.
A member of the classic protocol (while a group is migrated) has ``classic`` set.
"""

from __future__ import annotations

from dataclasses import field
from enum import IntEnum

from kafkasim.model.group.modern.state.assignment import Assignment
from kafkasim.model.messages import LEAVE_GROUP_STATIC_MEMBER_EPOCH, Subscription
from kafkasim.model.values import value


class MemberState(IntEnum):
    """State of a member, numbered as in its record; compare with ``is``."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    UNRELEASED_PARTITIONS = 2
    UNKNOWN = 127


@value
class ClassicMemberMetadata:
    """What a member of the classic protocol tells beside its subscription."""

    session_timeout_ms: int
    protocols: tuple[tuple[str, Subscription], ...]  # (assignor, subscription) by preference


@value
class ConsumerGroupMember:
    """A member as its two records describe it: what it told, and what it owns."""

    member_id: str
    member_epoch: int = 0  # −1: its assignment is removed; −2: a static member that is away
    previous_member_epoch: int = -1
    state: MemberState = MemberState.STABLE
    assigned: Assignment = field(default_factory=dict)
    revoking: Assignment = field(default_factory=dict)  # pending revocation
    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    topics: tuple[str, ...] = ()  # subscribed names, rising
    regex: str = ""  # subscribed regular expression, "" for none
    rebalance_timeout_ms: int = -1
    server_assignor: str | None = None
    classic: ClassicMemberMetadata | None = None  # None: it uses the consumer protocol

    @property
    def away(self) -> bool:
        """Whether this is a static member that has left for a while."""
        return self.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH

    def is_reconciled_to(self, target_epoch: int) -> bool:
        """Return whether the member owns all that the target assignment of an epoch gives it."""
        return self.state is MemberState.STABLE and self.member_epoch == target_epoch
