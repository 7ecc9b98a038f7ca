"""What a request makes of one share partition: its result, and the record that brings it about.

Kafka: the operations of ShareCoordinatorShard, with their checks in their order. Left out: the
check for a topic id that is null, which no request can carry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import (
    InitializeStatePartition,
    ReadStatePartition,
    ReadStateResult,
    ReadStateSummaryResult,
    StatePartitionResult,
    WriteStatePartition,
)
from kafkasim.model.records import Record
from kafkasim.model.share.records import (
    DEFAULT_LEADER_EPOCH,
    DEFAULT_STATE_EPOCH,
    UNINITIALIZED_START_OFFSET,
    ShareGroupOffset,
    SharePartitionKey,
    ShareUpdate,
    snapshot_record,
    tombstone,
    update_record,
)
from kafkasim.model.share.shard import ShareShard, ShareState
from kafkasim.model.share.state_batches import combine

NEGATIVE_PARTITION_ID = "The partition id cannot be a negative number."
WRITE_UNINITIALIZED = "Write operation on uninitialized share partition not allowed."
READ_UNINITIALIZED = "Read operation on uninitialized share partition not allowed."

Records = tuple[Record, ...]


class Topic(Protocol):
    """A topic of the metadata image."""

    @property
    def partitions(self) -> Mapping[int, object]: ...


class TopicsById(Protocol):
    """The broker's metadata, as far as the share coordinator reads it."""

    @property
    def topics(self) -> Mapping[str, Topic]: ...


class WriteRules(Protocol):
    """The decision about a write that Kafka once got wrong (ShareRules)."""

    def written_start_offset(self, known: int, asked: int) -> int:
        """Return the start offset that a write leaves."""


class StateOperations:
    """The operations on the share partitions of any shard."""

    def __init__(self, image: TopicsById, rules: WriteRules) -> None:
        self._image = image
        self._rules = rules

    def write(
        self, shard: ShareShard, key: SharePartitionKey, asked: WriteStatePartition, now_ms: int
    ) -> tuple[Records, StatePartitionResult]:
        """Return the record of a leader's write (writeState)."""
        state = shard.states.get(key)
        if key.partition < 0:
            return _refused(key, Errors.INVALID_REQUEST, NEGATIVE_PARTITION_ID)
        if state is None:
            return _refused(key, Errors.INVALID_REQUEST, WRITE_UNINITIALIZED)
        if asked.leader_epoch != -1 and state.leader_epoch > asked.leader_epoch:
            return _refused(key, Errors.FENCED_LEADER_EPOCH)
        if asked.state_epoch != -1 and state.state_epoch > asked.state_epoch:
            return _refused(key, Errors.FENCED_STATE_EPOCH)
        if not self._knows(key):
            return _refused(key, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        if asked.start_offset != UNINITIALIZED_START_OFFSET:
            known = state.offset.start_offset
            start_offset = self._rules.written_start_offset(known, asked.start_offset)
            asked = replace(asked, start_offset=start_offset)
        record = _state_record(shard, key, state, asked, now_ms)
        return (record,), StatePartitionResult(key.partition)

    def read(
        self, shard: ShareShard, key: SharePartitionKey, asked: ReadStatePartition, now_ms: int
    ) -> tuple[Records, ReadStateResult]:
        """Return a share partition's state; a new leader's epoch is recorded
        (readStateAndMaybeUpdateLeaderEpoch)."""
        state, partition = shard.states.get(key), key.partition
        error, message = Errors.NONE, ""
        if partition < 0:
            error, message = Errors.INVALID_REQUEST, NEGATIVE_PARTITION_ID
        elif state is None:
            error, message = Errors.INVALID_REQUEST, READ_UNINITIALIZED
        elif state.leader_epoch > asked.leader_epoch:
            error = Errors.FENCED_LEADER_EPOCH
        elif not self._knows(key):
            error = Errors.UNKNOWN_TOPIC_OR_PARTITION
        if state is None or error is not Errors.NONE:
            return (), ReadStateResult(partition, error, message)
        offset = state.offset
        result = ReadStateResult(
            partition,
            state_epoch=offset.state_epoch,
            start_offset=offset.start_offset,
            state_batches=offset.state_batches,
        )
        if asked.leader_epoch in (-1, state.leader_epoch):
            return (), result
        write = WriteStatePartition(
            partition, offset.state_epoch, asked.leader_epoch, offset.start_offset, ()
        )
        return (_state_record(shard, key, state, write, now_ms),), result

    def summarize(
        self, shard: ShareShard, key: SharePartitionKey, _asked: ReadStatePartition, _now_ms: int
    ) -> tuple[Records, ReadStateSummaryResult]:
        """Return where a share partition starts (readStateSummary)."""
        partition = key.partition
        if partition < 0:
            message = NEGATIVE_PARTITION_ID
            return (), ReadStateSummaryResult(partition, Errors.INVALID_REQUEST, message)
        if not self._knows(key):
            return (), ReadStateSummaryResult(partition, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        state = shard.states.get(key)
        if state is None:
            return (), ReadStateSummaryResult(
                partition,
                state_epoch=DEFAULT_STATE_EPOCH,
                leader_epoch=DEFAULT_LEADER_EPOCH,
                start_offset=UNINITIALIZED_START_OFFSET,
            )
        return (), ReadStateSummaryResult(
            partition,
            state_epoch=state.offset.state_epoch,
            leader_epoch=state.offset.leader_epoch,
            start_offset=state.offset.start_offset,
        )

    def delete(
        self, shard: ShareShard, key: SharePartitionKey, _asked: int, now_ms: int
    ) -> tuple[Records, StatePartitionResult]:
        """Return the tombstone of a share partition, none if it has no state (deleteState)."""
        if key.partition < 0:
            return _refused(key, Errors.INVALID_REQUEST, NEGATIVE_PARTITION_ID)
        if not self._knows(key):
            return _refused(key, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        records = (tombstone(key, now_ms),) if key in shard.states else ()
        return records, StatePartitionResult(key.partition)

    def initialize(
        self,
        shard: ShareShard,
        key: SharePartitionKey,
        asked: InitializeStatePartition,
        now_ms: int,
    ) -> tuple[Records, StatePartitionResult]:
        """Return the snapshot by which a share partition begins (initializeState)."""
        state = shard.states.get(key)
        if key.partition < 0:
            return _refused(key, Errors.INVALID_REQUEST, NEGATIVE_PARTITION_ID)
        fenced = asked.state_epoch != -1 and state is not None
        if fenced and state is not None and state.state_epoch > asked.state_epoch:
            return _refused(key, Errors.FENCED_STATE_EPOCH)
        if not self._knows(key):
            return _refused(key, Errors.UNKNOWN_TOPIC_OR_PARTITION)
        snapshot_epoch = 0 if state is None else state.offset.snapshot_epoch + 1
        offset = ShareGroupOffset(
            snapshot_epoch,
            asked.state_epoch,
            DEFAULT_LEADER_EPOCH,
            asked.start_offset,
            (),
            now_ms,
            now_ms,
        )
        return (snapshot_record(key, offset, now_ms),), StatePartitionResult(key.partition)

    def _knows(self, key: SharePartitionKey) -> bool:
        topic = self._image.topics.get(key.topic_id)
        return topic is not None and key.partition in topic.partitions


def _refused(
    key: SharePartitionKey, error: Errors, message: str = ""
) -> tuple[Records, StatePartitionResult]:
    return (), StatePartitionResult(key.partition, error, message)


def _state_record(
    shard: ShareShard,
    key: SharePartitionKey,
    state: ShareState,
    asked: WriteStatePartition,
    now_ms: int,
) -> Record:
    """Return a snapshot if enough updates came before or the state epoch is new, else an update
    (generateShareStateRecord)."""
    current = state.offset
    enough = (state.updates or 0) >= shard.updates_per_snapshot
    if not enough and asked.state_epoch <= current.state_epoch:
        batches = combine((), asked.state_batches, asked.start_offset)
        update = ShareUpdate(
            current.snapshot_epoch, asked.leader_epoch, asked.start_offset, batches
        )
        return update_record(key, update, now_ms)
    start_offset = current.start_offset if asked.start_offset == -1 else asked.start_offset
    return snapshot_record(
        key,
        ShareGroupOffset(
            current.snapshot_epoch + 1,
            current.state_epoch if asked.state_epoch == -1 else asked.state_epoch,
            current.leader_epoch if asked.leader_epoch == -1 else asked.leader_epoch,
            start_offset,
            combine(current.state_batches, asked.state_batches, start_offset),
            now_ms,
            now_ms,
        ),
        now_ms,
    )


def cold_snapshots(shard: ShareShard, interval_ms: int, now_ms: int) -> Records:
    """Return a snapshot of each share partition that had none for ``interval_ms``.

    None if every state is a repeated snapshot already: nobody writes, and nothing would become
    redundant (snapshotColdPartitions).
    """
    states = shard.states
    offsets = [state.offset for state in states.values()]
    if all(each.create_timestamp_ms != each.write_timestamp_ms for each in offsets):
        return ()
    records = []
    for key, state in states.items():
        offset = state.offset
        if now_ms - offset.write_timestamp_ms >= interval_ms:
            epoch = offset.snapshot_epoch + 1
            again = replace(offset, snapshot_epoch=epoch, write_timestamp_ms=now_ms)
            records.append(snapshot_record(key, again, now_ms))
    return tuple(records)


def cleanup(shard: ShareShard, deleted_topic_ids: tuple[str, ...], now_ms: int) -> Records:
    """Return the tombstones of the share partitions of deleted topics (maybeCleanupShareState)."""
    keys = [key for key in shard.states if key.topic_id in deleted_topic_ids]
    return tuple([tombstone(key, now_ms) for key in keys])


Operation = Any
"""A method of :class:`StateOperations`: (shard, key, what is asked, now in ms)."""
