"""The records of share groups in ``__consumer_offsets``, with their sizes on disk (KIP-932).

Kafka: GroupCoordinatorRecordHelpers and the ShareGroup* schemas. A record whose value is None is a
tombstone. Sizes assume ASCII names below 127 characters and a client host of ten.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.group.modern.state.assignment import Assignment
from kafkasim.model.group.share.log.state import ShareGroupMember, StatePartitions, Topics
from kafkasim.model.records import Record, record_size
from kafkasim.model.values import value

CLIENT_HOST_SIZE = 10


@value
class ShareGroupMemberMetadataKey:
    """Key of what a member told of itself; value: ShareGroupMemberMetadataValue."""

    group: str
    member_id: str


@value
class ShareGroupMemberMetadataValue:
    """What a member told of itself."""

    rack_id: str | None
    client_id: str
    topics: tuple[str, ...]


@value
class ShareGroupMetadataKey:
    """Key of the group epoch; value: ShareGroupMetadataValue."""

    group: str


@value
class ShareGroupMetadataValue:
    """A group's epoch, and a hash of its topics."""

    epoch: int
    metadata_hash: int


@value
class ShareGroupTargetAssignmentMetadataKey:
    """Key of the target's epoch; value: ShareGroupTargetAssignmentMetadataValue."""

    group: str


@value
class ShareGroupTargetAssignmentMetadataValue:
    """The epoch of the target assignment."""

    assignment_epoch: int


@value
class ShareGroupTargetAssignmentMemberKey:
    """Key of what a member is to consume; value: an Assignment."""

    group: str
    member_id: str


@value
class ShareGroupCurrentMemberAssignmentKey:
    """Key of what a member consumes; value: ShareGroupCurrentMemberAssignmentValue."""

    group: str
    member_id: str


@value
class ShareGroupCurrentMemberAssignmentValue:
    """What a member consumes, and its epochs. Its state is always STABLE."""

    member_epoch: int
    previous_member_epoch: int
    assigned: Assignment


@value
class ShareGroupStatePartitionMetadataKey:
    """Key of the share partitions; value: ShareGroupStatePartitionMetadataValue."""

    group: str


@value
class ShareGroupStatePartitionMetadataValue:
    """Which share partitions are initializing and initialized, and which topics are deleting."""

    initializing: tuple[tuple[str, str, tuple[int, ...]], ...]  # (topic id, name, partitions)
    initialized: tuple[tuple[str, str, tuple[int, ...]], ...]
    deleting: tuple[tuple[str, str], ...]  # (topic id, name)


SHARE_GROUP_KEYS: tuple[type, ...] = (
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupTargetAssignmentMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupStatePartitionMetadataKey,
)
Entry = tuple[Any, Any]
"""Key and value of a record that is to be appended."""


def member_entry(group: str, m: ShareGroupMember) -> Entry:
    """Return the entry of what a member told of itself."""
    told = ShareGroupMemberMetadataValue(m.rack_id, m.client_id, m.topics)
    return ShareGroupMemberMetadataKey(group, m.member_id), told


def epoch_entry(group: str, epoch: int, metadata_hash: int) -> Entry:
    """Return the entry of a group's epoch."""
    return ShareGroupMetadataKey(group), ShareGroupMetadataValue(epoch, metadata_hash)


def target_epoch_entry(group: str, epoch: int) -> Entry:
    """Return the entry of the target assignment's epoch."""
    found = ShareGroupTargetAssignmentMetadataValue(epoch)
    return ShareGroupTargetAssignmentMetadataKey(group), found


def target_entry(group: str, member_id: str, assignment: Assignment) -> Entry:
    """Return the entry of what a member is to consume."""
    return ShareGroupTargetAssignmentMemberKey(group, member_id), assignment


def current_entry(group: str, m: ShareGroupMember) -> Entry:
    """Return the entry of what a member consumes."""
    found = ShareGroupCurrentMemberAssignmentValue(
        m.member_epoch, m.previous_member_epoch, m.assigned
    )
    return ShareGroupCurrentMemberAssignmentKey(group, m.member_id), found


def state_partitions_entry(group: str, info: StatePartitions, names: dict[str, str]) -> Entry:
    """Return the entry of a group's share partitions; ``names`` are those of deleting topics."""
    deleting = tuple([(each, names.get(each, "<UNKNOWN>")) for each in info.deleting])
    return ShareGroupStatePartitionMetadataKey(group), ShareGroupStatePartitionMetadataValue(
        _rows(info.initializing), _rows(info.initialized), deleting
    )


def removal_entries(group: str, member_id: str) -> list[Entry]:
    """Return the tombstones of a member: first of what it consumes, last of itself."""
    return [
        (ShareGroupCurrentMemberAssignmentKey(group, member_id), None),
        (ShareGroupTargetAssignmentMemberKey(group, member_id), None),
        (ShareGroupMemberMetadataKey(group, member_id), None),
    ]


def group_tombstones(group: str) -> list[Entry]:
    """Return the tombstones of a group without members (createGroupTombstoneRecords)."""
    return [
        (ShareGroupTargetAssignmentMetadataKey(group), None),
        (ShareGroupStatePartitionMetadataKey(group), None),
        (ShareGroupMetadataKey(group), None),
    ]


def _rows(topics: Topics) -> tuple[tuple[str, str, tuple[int, ...]], ...]:
    return tuple([(each, topic.name, topic.partitions) for each, topic in topics.items()])


def records_of(entries: list[Entry], now_ms: int) -> tuple[Record, ...]:
    """Return the records of one batch."""
    return tuple(
        [
            Record(key, found, record_size(_key_size(key), _value_size(found), i, 0), now_ms)
            for i, (key, found) in enumerate(entries)
        ]
    )


def _key_size(key: Any) -> int:
    names = [key.group, getattr(key, "member_id", None)]
    return 2 + sum([2 + len(name) for name in names if name is not None])


def _value_size(found: Any) -> int:
    kind = type(found)
    if found is None:
        return -1
    if kind is ShareGroupMetadataValue:
        return 15
    if kind is ShareGroupTargetAssignmentMetadataValue:
        return 7
    if kind is ShareGroupMemberMetadataValue:
        names = [found.rack_id, found.client_id, *found.topics]
        return 5 + CLIENT_HOST_SIZE + sum([1 + len(name or "") for name in names])
    if kind is ShareGroupCurrentMemberAssignmentValue:
        return 12 + _assignment_size(found.assigned)
    if kind is ShareGroupStatePartitionMetadataValue:
        rows = [*found.initializing, *found.initialized]
        topics = sum([19 + len(name) + 4 * len(numbers) for _, name, numbers in rows])
        return 6 + topics + sum([18 + len(name) for _, name in found.deleting])
    return 3 + _assignment_size(found)


def _assignment_size(assignment: Assignment) -> int:
    return 1 + sum([18 + 4 * len(numbers) for numbers in assignment.values()])
