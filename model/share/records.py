"""The records of ``__share_group_state``: keys, values, and their sizes on disk.

Kafka: ShareSnapshotKey and ShareUpdateKey v0 with their values v0, ShareGroupOffset,
ShareCoordinatorRecordHelpers. A snapshot whose value is None is a tombstone. Sizes in bytes assume
ASCII names.
"""

from __future__ import annotations

from typing import NamedTuple

from kafkasim.model.messages.share import StateBatch
from kafkasim.model.records import Record, record_size
from kafkasim.model.values import is_uuid, value

UNINITIALIZED_START_OFFSET = -1
DEFAULT_STATE_EPOCH = 0
DEFAULT_LEADER_EPOCH = 0
"""What is answered about a share partition that has no state (PartitionFactory)."""


class SharePartitionKey(NamedTuple):
    """A partition as one share group consumes it."""

    group_id: str
    topic_id: str
    partition: int

    def as_coordinator_key(self) -> str:
        """Return the key by which brokers find the share coordinator (asCoordinatorKey)."""
        return f"{self.group_id}:{self.topic_id}:{self.partition}"


def is_coordinator_key(key: str) -> bool:
    """Return whether a key is of the form groupId:topicId:partition (SharePartitionKey.validate).

    A group id with a colon makes no such key.
    """
    tokens = key.rstrip(":").split(":")
    return (
        len(tokens) == 3
        and bool(tokens[0].strip())
        and is_uuid(tokens[1])
        and tokens[2].removeprefix("-").isdecimal()
    )


@value
class ShareSnapshotKey:
    share_partition: SharePartitionKey


@value
class ShareUpdateKey:
    share_partition: SharePartitionKey


@value
class ShareGroupOffset:
    """The whole state of a share partition, as a snapshot's value has it (ShareSnapshotValue)."""

    snapshot_epoch: int  # counts the snapshots
    state_epoch: int  # of the group coordinator; a higher one begins anew
    leader_epoch: int  # of the leader that wrote it
    start_offset: int  # −1: not decided
    state_batches: tuple[StateBatch, ...]  # above the start offset, disjoint and rising
    create_timestamp_ms: int  # when a snapshot with these batches was written first
    write_timestamp_ms: int  # when it was written last


@value
class ShareUpdate:
    """What has changed since a snapshot (ShareUpdateValue)."""

    snapshot_epoch: int
    leader_epoch: int  # −1: as it was
    start_offset: int  # −1: as it was
    state_batches: tuple[StateBatch, ...]


def snapshot_record(key: SharePartitionKey, offset: ShareGroupOffset, now_ms: int) -> Record:
    """Return the record of a share partition's whole state."""
    size = 38 + 20 * len(offset.state_batches)
    return Record(ShareSnapshotKey(key), offset, _size(key, size), now_ms)


def update_record(key: SharePartitionKey, update: ShareUpdate, now_ms: int) -> Record:
    """Return the record of a change."""
    size = 18 + 20 * len(update.state_batches)
    return Record(ShareUpdateKey(key), update, _size(key, size), now_ms)


def tombstone(key: SharePartitionKey, now_ms: int) -> Record:
    """Return the record by which a share partition is forgotten."""
    return Record(ShareSnapshotKey(key), None, _size(key, -1), now_ms)


def _size(key: SharePartitionKey, value_size: int) -> int:
    return record_size(2 + 2 + len(key.group_id) + 16 + 4, value_size, 0, 0)
