"""What the user data of subscriptions and assignments say (SubscriptionInfo, AssignmentInfo).

Versions up to 11 of Kafka's encoding differ in bytes only; here it is JSON. Left out: endpoints and
client tags, version probing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from enum import IntEnum
from typing import Any

from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.values import value

NEVER_MS = 2**63 - 1
"""The time of a follow-up rebalance that nobody asked for (Long.MAX_VALUE)."""


class AssignorError(IntEnum):
    """Why the leader assigned nothing."""

    NONE = 0
    INCOMPLETE_SOURCE_TOPIC_METADATA = 1
    ASSIGNMENT_ERROR = 3
    SHUTDOWN_REQUESTED = 4


@value
class SubscriptionInfo:
    """What a thread tells the leader."""

    process_id: str
    offset_sums: Mapping[TaskId, int]  # of the tasks that the thread has state of
    unique: int  # another number in each JoinGroup; a byte in Kafka
    error: AssignorError

    def encode(self) -> bytes:
        """Return the user data of a subscription."""
        sums = {str(task): offset for task, offset in sorted(self.offset_sums.items())}
        return _bytes([self.process_id, sums, self.unique & 0xFF, int(self.error)])

    @classmethod
    def decode(cls, data: bytes) -> SubscriptionInfo:
        """Return what user data say."""
        process_id, sums, unique, error = json.loads(data)
        offsets = {TaskId.parse(task): offset for task, offset in sums.items()}
        return cls(process_id, offsets, unique, AssignorError(error))


@value
class AssignmentInfo:
    """What the leader tells a thread."""

    active: Sequence[TaskId]  # of each assigned partition, in the order of the partitions
    standby: Mapping[TaskId, Sequence[TopicPartition]]
    next_rebalance_ms: int  # wall clock; 0: at once, NEVER_MS: not at all
    error: AssignorError

    def encode(self) -> bytes:
        """Return the user data of an assignment."""
        standby = {
            str(task): [list(tp) for tp in tps] for task, tps in sorted(self.standby.items())
        }
        active = [str(task) for task in self.active]
        return _bytes([active, standby, self.next_rebalance_ms, int(self.error)])

    @classmethod
    def decode(cls, data: bytes) -> AssignmentInfo:
        """Return what user data say."""
        active, standby, next_rebalance_ms, error = json.loads(data)
        replicas = {
            TaskId.parse(task): [TopicPartition(*tp) for tp in tps] for task, tps in standby.items()
        }
        tasks = [TaskId.parse(task) for task in active]
        return cls(tasks, replicas, next_rebalance_ms, AssignorError(error))


def _bytes(data: Any) -> bytes:
    return json.dumps(data, separators=(",", ":")).encode()
