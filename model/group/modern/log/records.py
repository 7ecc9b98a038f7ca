"""The records of consumer groups in ``__consumer_offsets``, with their sizes on disk (KIP-848).

Kafka: GroupCoordinatorRecordHelpers and the ConsumerGroup* schemas. A group is the sum of records
of eight kinds; a record whose value is None is a tombstone. Sizes assume ASCII names below 127
characters and a client host of ten.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from kafkasim.model.group.modern.state.assignment import Assignment
from kafkasim.model.group.modern.state.member import (
    ClassicMemberMetadata,
    ConsumerGroupMember,
    MemberState,
)
from kafkasim.model.group.modern.state.subscriptions import ResolvedRegularExpression
from kafkasim.model.group.modern.state.topics import TopicMetadata
from kafkasim.model.group.records import (
    GroupMetadataValue,
    group_size,
    subscription_size,
)
from kafkasim.model.records import Record, record_size
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup

CLIENT_HOST_SIZE = 10


@value
class ConsumerGroupMetadataKey:
    """Key of the group epoch; value: ConsumerGroupMetadataValue."""

    group: str


@value
class ConsumerGroupMetadataValue:
    """A group's epoch; since 4.1 (KAFKA-17747) with a hash of the subscribed topics that exist.

    In place of the hash it has what it is over: (name, metadata). None is no hash.
    """

    epoch: int
    topics: tuple[tuple[str, TopicMetadata], ...] | None = None


@value
class ConsumerGroupPartitionMetadataKey:
    """Key of the subscribed topics; value: ConsumerGroupPartitionMetadataValue."""

    group: str


@value
class ConsumerGroupPartitionMetadataValue:
    """The subscribed topics that exist: (name, metadata)."""

    topics: tuple[tuple[str, TopicMetadata], ...]


@value
class ConsumerGroupMemberMetadataKey:
    """Key of what a member told of itself; value: ConsumerGroupMemberMetadataValue."""

    group: str
    member_id: str


@value
class ConsumerGroupMemberMetadataValue:
    """What a member told of itself."""

    instance_id: str | None
    rack_id: str | None
    client_id: str
    topics: tuple[str, ...]
    regex: str
    rebalance_timeout_ms: int
    server_assignor: str | None
    classic: ClassicMemberMetadata | None


@value
class ConsumerGroupRegularExpressionKey:
    """Key of what an expression matched; value: ResolvedRegularExpression."""

    group: str
    regex: str


@value
class ConsumerGroupTargetAssignmentMetadataKey:
    """Key of the target's epoch; value: ConsumerGroupTargetAssignmentMetadataValue."""

    group: str


@value
class ConsumerGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment."""

    assignment_epoch: int


@value
class ConsumerGroupTargetAssignmentMemberKey:
    """Key of what a member should own; value: an Assignment."""

    group: str
    member_id: str


@value
class ConsumerGroupCurrentMemberAssignmentKey:
    """Key of what a member owns; value: ConsumerGroupCurrentMemberAssignmentValue."""

    group: str
    member_id: str


@value
class ConsumerGroupCurrentMemberAssignmentValue:
    """What a member owns, and how far it is."""

    member_epoch: int
    previous_member_epoch: int
    state: MemberState
    assigned: Assignment
    revoking: Assignment


CONSUMER_GROUP_KEYS: tuple[type, ...] = (
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMetadataKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupCurrentMemberAssignmentKey,
)
Entry = tuple[Any, Any]
"""Key and value of a record that is to be appended."""


# What is written, as entries.


def epoch_entry(group: str, epoch: int, topics: Mapping[str, TopicMetadata] | None = None) -> Entry:
    """Return the entry of a group's epoch, with the hash of its topics unless they are None."""
    hashed = None if topics is None else tuple(topics.items())
    return ConsumerGroupMetadataKey(group), ConsumerGroupMetadataValue(epoch, hashed)


def metadata_entry(group: str, topics: dict[str, TopicMetadata]) -> Entry:
    """Return the entry of the subscribed topics."""
    found = ConsumerGroupPartitionMetadataValue(tuple(topics.items()))
    return ConsumerGroupPartitionMetadataKey(group), found


def epoch_entries(
    group: ConsumerGroup, epoch: int, topics: dict[str, TopicMetadata], hashed: bool
) -> list[Entry]:
    """Return the entries of a group's new epoch, and before it of topics that have changed.

    If they are ``hashed``, the topics have no record of their own, and one of 4.0 is removed
    (updateSubscriptionMetadata).
    """
    if not hashed:
        changed = [metadata_entry(group.group_id, topics)] if topics != group.metadata else []
        return [*changed, epoch_entry(group.group_id, epoch)]
    entries = [epoch_entry(group.group_id, epoch, topics)]
    if group.has_metadata_record:
        entries.append((ConsumerGroupPartitionMetadataKey(group.group_id), None))
    return entries


def member_entry(group: str, m: ConsumerGroupMember) -> Entry:
    """Return the entry of what a member told of itself."""
    return ConsumerGroupMemberMetadataKey(group, m.member_id), ConsumerGroupMemberMetadataValue(
        m.instance_id,
        m.rack_id,
        m.client_id,
        m.topics,
        m.regex,
        m.rebalance_timeout_ms,
        m.server_assignor,
        m.classic,
    )


def regex_entry(group: str, regex: str, resolved: ResolvedRegularExpression | None) -> Entry:
    """Return the entry of what an expression matched, None: its tombstone."""
    return ConsumerGroupRegularExpressionKey(group, regex), resolved


def target_epoch_entry(group: str, epoch: int) -> Entry:
    """Return the entry of the target assignment's epoch."""
    found = ConsumerGroupTargetAssignmentMetadataValue(epoch)
    return ConsumerGroupTargetAssignmentMetadataKey(group), found


def target_entry(group: str, member_id: str, assignment: Assignment) -> Entry:
    """Return the entry of what a member should own."""
    return ConsumerGroupTargetAssignmentMemberKey(group, member_id), assignment


def current_entry(group: str, m: ConsumerGroupMember) -> Entry:
    """Return the entry of what a member owns."""
    return ConsumerGroupCurrentMemberAssignmentKey(
        group, m.member_id
    ), ConsumerGroupCurrentMemberAssignmentValue(
        m.member_epoch, m.previous_member_epoch, m.state, m.assigned, m.revoking
    )


def removal_entries(group: str, member_id: str) -> list[Entry]:
    """Return the tombstones of a member: first of what it owns, last of itself."""
    return [
        (ConsumerGroupCurrentMemberAssignmentKey(group, member_id), None),
        (ConsumerGroupTargetAssignmentMemberKey(group, member_id), None),
        (ConsumerGroupMemberMetadataKey(group, member_id), None),
    ]


def group_tombstones(
    group: str, regexes: Iterable[str], members: Iterable[str] = ()
) -> list[Entry]:
    """Return the tombstones of a group, with those of its members if it has any."""
    ids = list(members)
    return [
        *[(ConsumerGroupCurrentMemberAssignmentKey(group, each), None) for each in ids],
        *[(ConsumerGroupTargetAssignmentMemberKey(group, each), None) for each in ids],
        (ConsumerGroupTargetAssignmentMetadataKey(group), None),
        *[(ConsumerGroupMemberMetadataKey(group, each), None) for each in ids],
        *[(ConsumerGroupRegularExpressionKey(group, regex), None) for regex in regexes],
        (ConsumerGroupPartitionMetadataKey(group), None),
        (ConsumerGroupMetadataKey(group), None),
    ]


# What it takes on disk.


def records_of(entries: list[Entry], now_ms: int) -> tuple[Record, ...]:
    """Return the records of one batch."""
    return tuple(
        [
            Record(key, found, record_size(_key_size(key), _value_size(found), i, 0), now_ms)
            for i, (key, found) in enumerate(entries)
        ]
    )


def _key_size(key: Any) -> int:
    names = [key.group, getattr(key, "member_id", None), getattr(key, "regex", None)]
    return 2 + sum([2 + len(name) for name in names if name is not None])


def _value_size(found: Any) -> int:
    kind = type(found)
    if found is None:
        return -1
    if kind is ConsumerGroupMetadataValue:
        return 7 if found.topics is None else 17
    if kind is ConsumerGroupTargetAssignmentMetadataValue:
        return 7
    if kind is GroupMetadataValue:  # of a classic group that comes from this one
        return group_size(found)
    if kind is ConsumerGroupPartitionMetadataValue:
        return 4 + sum([23 + len(name) for name, _ in found.topics])
    if kind is ConsumerGroupMemberMetadataValue:
        names = [found.instance_id, found.rack_id, found.client_id, found.regex]
        names += [found.server_assignor, *found.topics]
        size = 9 + CLIENT_HOST_SIZE + sum([1 + len(name or "") for name in names])
        return size + _classic_size(found.classic)
    if kind is ResolvedRegularExpression:
        return 20 + sum([1 + len(topic) for topic in found.topics])
    if kind is ConsumerGroupCurrentMemberAssignmentValue:
        return 12 + _assignment_size(found.assigned) + _assignment_size(found.revoking)
    return 3 + _assignment_size(found)


def _classic_size(classic: ClassicMemberMetadata | None) -> int:
    """Return the bytes of the tagged field ClassicMemberMetadata, 0 if it is left out."""
    if classic is None:
        return 0
    return 9 + sum([3 + len(name) + subscription_size(told) for name, told in classic.protocols])


def _assignment_size(assignment: Assignment) -> int:
    return 1 + sum([18 + 4 * len(numbers) for numbers in assignment.values()])
