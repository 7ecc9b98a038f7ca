"""One offsets partition of which this broker is coordinator, and the replay of its records.

Kafka: CoordinatorRuntime.CoordinatorContext with its GroupCoordinatorShard and the snapshot
registry. Committed offsets keep their uncommitted versions, so that a read sees what lies below the
high watermark while a write sees what was appended last. Groups have no versions, as in Kafka: a
classic group's state is volatile but for its record.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup
from kafkasim.model.group.records import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)
from kafkasim.model.records import Record, TopicPartition

Complete = Callable[[Any, Errors, int], None]  # (argument, error, now)
Versions = list[tuple[int, OffsetCommitValue | None]]  # (offset after the batch, value), rising


class Deferred:
    """An answer that waits until the high watermark reaches ``end_offset`` (DeferredEvent)."""

    __slots__ = ("argument", "complete", "deadline_us", "end_offset")

    def __init__(self, end_offset: int, deadline_us: int, complete: Complete, argument: Any):
        self.end_offset = end_offset
        self.deadline_us = deadline_us
        self.complete = complete
        self.argument = argument


class Shard:
    """The state of one offsets partition under one tenure of this broker."""

    __slots__ = (
        "active",
        "deferred",
        "epoch",
        "groups",
        "last_committed",
        "last_written",
        "offsets",
        "partition",
        "tp",
    )

    def __init__(self, partition: int, tp: TopicPartition, epoch: int) -> None:
        self.partition = partition
        self.tp = tp
        self.epoch = epoch  # leader epoch; a re-election of this broker raises it
        self.active = False  # False while loading
        self.groups: dict[str, ClassicGroup] = {}
        self.offsets: dict[str, dict[TopicPartition, Versions]] = {}
        self.last_written = 0  # the log end offset that the state reflects
        self.last_committed = 0  # the high watermark, ≤ last_written once it is known
        # Both end offsets and deadlines rise from left to right.
        self.deferred: deque[Deferred] = deque()

    def latest(self, group_id: str, tp: TopicPartition) -> OffsetCommitValue | None:
        """Return the offset last appended, committed or not."""
        versions = self.offsets.get(group_id, {}).get(tp)
        return versions[-1][1] if versions else None

    def committed(self, group_id: str, tp: TopicPartition) -> OffsetCommitValue | None:
        """Return the offset as of the high watermark."""
        for end_offset, value in reversed(self.offsets.get(group_id, {}).get(tp, ())):
            if end_offset <= self.last_committed:
                return value
        return None

    def replay_offset(
        self, key: OffsetCommitKey, value: OffsetCommitValue | None, end_offset: int
    ) -> None:
        """Apply a record of an offset: the later log offset wins (KAFKA-5247)."""
        slot = self.offsets.setdefault(key.group, {})
        versions = slot.setdefault(TopicPartition(key.topic, key.partition), [])
        assert not versions or versions[-1][0] <= end_offset, (key, versions, end_offset)
        versions.append((end_offset, value))
        while len(versions) > 1 and versions[1][0] <= self.last_committed:
            del versions[0]

    def drop_tombstones(self) -> None:
        """Forget offsets whose tombstone is committed."""
        for group_id in list(self.offsets):
            slot = self.offsets[group_id]
            for tp in list(slot):
                end_offset, value = slot[tp][-1]
                if value is None and end_offset <= self.last_committed:
                    del slot[tp]
            if not slot:
                del self.offsets[group_id]

    def load(self, record: Record, end_offset: int, now_ms: int) -> None:
        """Apply one record while the partition is loaded; groups are restored as recorded."""
        key = record.key
        if type(key) is OffsetCommitKey:
            self.replay_offset(key, record.value, end_offset)
            if key.group not in self.groups and record.value is not None:
                self.groups[key.group] = ClassicGroup(key.group, now_ms)
            return
        assert type(key) is GroupMetadataKey, record
        value = record.value
        if value is None:
            self.groups.pop(key.group, None)
        else:
            assert type(value) is GroupMetadataValue, record
            self.groups[key.group] = ClassicGroup.of_record(key.group, value)
