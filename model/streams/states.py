"""The state machines of Kafka Streams, as tables of legal moves.

Models StreamThread.State, Task.State, and the states of a changelog in StoreChangelogReader.
"""

from __future__ import annotations

from enum import Enum


class ThreadState(Enum):
    """What a stream thread does (StreamThread.State)."""

    CREATED = "CREATED"
    STARTING = "STARTING"
    PARTITIONS_REVOKED = "PARTITIONS_REVOKED"
    PARTITIONS_ASSIGNED = "PARTITIONS_ASSIGNED"
    RUNNING = "RUNNING"
    PENDING_SHUTDOWN = "PENDING_SHUTDOWN"
    DEAD = "DEAD"


_T = ThreadState
THREAD_MOVES: dict[ThreadState, tuple[ThreadState, ...]] = {
    _T.CREATED: (_T.STARTING, _T.PENDING_SHUTDOWN),
    _T.STARTING: (_T.PARTITIONS_REVOKED, _T.PARTITIONS_ASSIGNED, _T.PENDING_SHUTDOWN),
    _T.PARTITIONS_REVOKED: (_T.PARTITIONS_REVOKED, _T.PARTITIONS_ASSIGNED, _T.PENDING_SHUTDOWN),
    _T.PARTITIONS_ASSIGNED: (
        _T.PARTITIONS_REVOKED, _T.PARTITIONS_ASSIGNED, _T.RUNNING, _T.PENDING_SHUTDOWN,
    ),
    _T.RUNNING: (
        _T.PARTITIONS_REVOKED, _T.PARTITIONS_ASSIGNED, _T.RUNNING, _T.PENDING_SHUTDOWN,
    ),
    _T.PENDING_SHUTDOWN: (_T.DEAD,),
    _T.DEAD: (),
}  # fmt: skip
"""From each state, where a thread may go. Other moves are ignored in the last two states."""


class TaskState(Enum):
    """What a task does (Task.State). A standby passes from CREATED to RUNNING at once."""

    CREATED = "CREATED"
    RESTORING = "RESTORING"
    RUNNING = "RUNNING"
    SUSPENDED = "SUSPENDED"
    CLOSED = "CLOSED"


_S = TaskState
TASK_MOVES: dict[TaskState, tuple[TaskState, ...]] = {
    _S.CREATED: (_S.RESTORING, _S.SUSPENDED),
    _S.RESTORING: (_S.RUNNING, _S.SUSPENDED),
    _S.RUNNING: (_S.SUSPENDED,),
    _S.SUSPENDED: (_S.RESTORING, _S.CLOSED),
    _S.CLOSED: (_S.CREATED,),  # revive, after a corruption
}


class ChangelogState(Enum):
    """How far a changelog is read; that of a standby is never completed."""

    REGISTERED = "REGISTERED"
    RESTORING = "RESTORING"
    COMPLETED = "COMPLETED"


class ReaderState(Enum):
    """Whose changelogs are read: while any active task restores, standbys are paused."""

    ACTIVE_RESTORING = "ACTIVE_RESTORING"
    STANDBY_UPDATING = "STANDBY_UPDATING"
