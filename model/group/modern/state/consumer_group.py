"""A consumer group (ConsumerGroup, ModernGroup): state without effects, changed by records only.

    EMPTY        no members
    ASSIGNING    the group epoch is above the target assignment's: it has to be computed
    RECONCILING  some member does not own yet what the target assignment gives it
    STABLE       all members do

The **group epoch** rises when a member joins, leaves or subscribes otherwise, and when a topic that
the group subscribes to changes. The **target assignment** says who should own what as of its own
epoch. Each member has an epoch, too, and comes to the target's by itself (current_assignment.py).
The **partition epochs** say who owns what now: for each partition the member epoch of its owner.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.assignment import (
    EMPTY,
    Assignment,
    partitions_of,
    subtract,
)
from kafkasim.model.group.modern.state.current_assignment import FREE
from kafkasim.model.group.modern.state.member import ConsumerGroupMember, MemberState
from kafkasim.model.group.modern.state.partition_epochs import PartitionEpochs
from kafkasim.model.group.modern.state.subscriptions import (
    ResolvedRegularExpression,
    subscribed_topics,
)
from kafkasim.model.group.modern.state.topics import TopicMetadata

CONSUMER = "consumer"
"""The protocol type of classic members that may be in such a group (ConsumerProtocol)."""


class ConsumerGroupState(Enum):
    """State of a group (ConsumerGroupState); the values stand in the trace."""

    EMPTY = "Empty"
    ASSIGNING = "Assigning"
    RECONCILING = "Reconciling"
    STABLE = "Stable"
    DEAD = "Dead"


class OwnershipRules(Protocol):
    """What a group decides by rules that a variant may override (GroupRules)."""

    def check_member_epoch(self, received: int, expected: int) -> Errors: ...
    def update_partition_epochs(
        self,
        epochs: PartitionEpochs,
        old: ConsumerGroupMember | None,
        new: ConsumerGroupMember | None,
    ) -> None: ...


class ConsumerGroup:
    """The members of a group, its target assignment, and who owns what."""

    def __init__(self, group_id: str, rules: OwnershipRules) -> None:
        self.group_id = group_id
        self.rules = rules
        self.group_epoch = 0
        self.target_epoch = 0  # of the target assignment; −1: its records are removed
        self.members: dict[str, ConsumerGroupMember] = {}  # by id, in the order of joining
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.target: dict[str, Assignment] = {}  # by member id
        self.partition_epochs: PartitionEpochs = {}
        self.metadata: dict[str, TopicMetadata] = {}  # of the subscribed topics, by name, rising
        self.hashes_topics = False  # they are in the record of the group epoch (4.1)
        self.has_metadata_record = False  # they have a record of their own (4.0)
        self.regexes: dict[str, ResolvedRegularExpression] = {}
        # The subscribed topics are looked up again from this time on, or if the group epoch is
        # below that of the last lookup: the record of that lookup was never written.
        self.refresh_deadline_us = 0
        self.refresh_epoch = 0

    def copy(self) -> ConsumerGroup:
        """Return a group that is equal now, and stays as it is when this one changes."""
        other = ConsumerGroup(self.group_id, self.rules)
        other.group_epoch, other.target_epoch = self.group_epoch, self.target_epoch
        other.members, other.static_members = dict(self.members), dict(self.static_members)
        other.target, other.partition_epochs = dict(self.target), dict(self.partition_epochs)
        other.metadata, other.regexes = dict(self.metadata), dict(self.regexes)
        other.hashes_topics = self.hashes_topics
        other.has_metadata_record = self.has_metadata_record
        other.refresh_deadline_us = self.refresh_deadline_us
        other.refresh_epoch = self.refresh_epoch
        return other

    @property
    def state(self) -> ConsumerGroupState:
        """The state, which follows from members and epochs (maybeUpdateGroupState)."""
        if not self.members:
            return ConsumerGroupState.EMPTY
        if self.group_epoch > self.target_epoch:
            return ConsumerGroupState.ASSIGNING
        if all(member.is_reconciled_to(self.target_epoch) for member in self.members.values()):
            return ConsumerGroupState.STABLE
        return ConsumerGroupState.RECONCILING

    def static_member(self, instance_id: str | None) -> ConsumerGroupMember | None:
        """Return the member that has an instance id."""
        member_id = self.static_members.get(instance_id or "")
        return None if member_id is None else self.members[member_id]

    def target_of(self, member_id: str, instance_id: str | None) -> Assignment:
        """Return what a member should own; a static member takes over from its last member id."""
        if instance_id is not None:
            member_id = self.static_members.get(instance_id, "")
        return self.target.get(member_id, EMPTY)

    def partition_epoch(self, topic_id: str, partition: int) -> int:
        """Return the member epoch of a partition's owner, −1 if nobody owns it."""
        return self.partition_epochs.get((topic_id, partition), FREE)

    def metadata_expired(self, now: int) -> bool:
        """Return whether the subscribed topics have to be looked up again."""
        return now >= self.refresh_deadline_us or self.group_epoch < self.refresh_epoch

    def request_refresh(self) -> None:
        """Look the subscribed topics up with the next heartbeat: one of them has changed."""
        self.refresh_deadline_us = 0

    # What follows from members and regular expressions.

    def with_member(self, updated: ConsumerGroupMember) -> dict[str, ConsumerGroupMember]:
        """Return the members with ``updated`` among them, in place of who had its instance id."""
        replaced = self.static_members.get(updated.instance_id or "")
        members = {key: m for key, m in self.members.items() if key != replaced}
        members[updated.member_id] = updated
        return members

    def is_subscribed(self, topic: str) -> bool:
        """Return whether a member subscribes to a topic, by its name or by an expression."""
        return topic in subscribed_topics(self.members, self.regexes)

    # Members of the classic protocol.

    def supports_classic_protocols(self, protocol_type: str, names: Iterable[str]) -> bool:
        """Return whether a classic member may join with these assignors.

        All classic members must support one of them (supportsClassicProtocols).
        """
        if protocol_type != CONSUMER:
            return False
        classic = [m.classic for m in self.members.values() if m.classic is not None]
        if not self.members:
            return any(True for _ in names)
        known = [{name for name, _ in each.protocols} for each in classic]
        return any(all(name in each for each in known) for name in names)

    def all_classic_without(self, gone: Iterable[str]) -> bool:
        """Return whether the members but these all use the classic protocol."""
        left = dict.fromkeys(gone)
        return all(m.classic is not None for key, m in self.members.items() if key not in left)

    def waits_on_unreleased(self, member: ConsumerGroupMember) -> bool:
        """Return whether another member still owns some of what a member should own."""
        if member.state is not MemberState.UNRELEASED_PARTITIONS:
            return False
        wanted = subtract(self.target.get(member.member_id, EMPTY), member.assigned)
        return any(self.partition_epoch(*each) != FREE for each in partitions_of(wanted))

    # Checks of offset requests.

    def validate_offset_commit(self, member_id: str, member_epoch: int) -> Errors:
        """Return NONE if a commit may be accepted (validateOffsetCommit)."""
        if member_epoch < 0 and not self.members:
            return Errors.NONE
        return self._validate_member(member_id, member_epoch)

    def validate_offset_fetch(self, member_id: str | None, member_epoch: int) -> Errors:
        """Return NONE if offsets may be fetched; those who are no members always may."""
        if member_id is None and member_epoch < 0:
            return Errors.NONE
        return self._validate_member(member_id or "", member_epoch)

    def _validate_member(self, member_id: str, member_epoch: int) -> Errors:
        member = self.members.get(member_id)
        if member is None:
            return Errors.UNKNOWN_MEMBER_ID
        error = self.rules.check_member_epoch(member_epoch, member.member_epoch)
        if error is Errors.STALE_MEMBER_EPOCH and member.classic is not None:
            return Errors.ILLEGAL_GENERATION
        return error

    # Changes, from records.

    def update_member(self, member: ConsumerGroupMember) -> None:
        """Put a member, new or not, in its new state."""
        old = self.members.get(member.member_id)
        self.members[member.member_id] = member
        self.rules.update_partition_epochs(self.partition_epochs, old, member)
        if member.instance_id is not None:
            self.static_members[member.instance_id] = member.member_id

    def remove_member(self, member_id: str) -> None:
        """Remove a member, whose assignment is removed already."""
        member = self.members.pop(member_id)
        self.rules.update_partition_epochs(self.partition_epochs, member, None)
        if member.instance_id is not None:
            self.static_members.pop(member.instance_id, None)

    def set_target(self, member_id: str, assignment: Assignment) -> None:
        """Set what a member should own."""
        self.target[member_id] = assignment

    def remove_target(self, member_id: str) -> None:
        """Forget what a member should own."""
        self.target.pop(member_id, None)
