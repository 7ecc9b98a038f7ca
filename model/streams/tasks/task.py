"""What active and standby tasks share: the state machine, the stores, the checkpoint.

Models AbstractTask and StandbyTask. Active tasks are in ``stream_task.py``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar, Protocol

from kafkasim.model.facts import streams as facts
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.errors import StreamsError, TaskMigrated
from kafkasim.model.streams.port import Port
from kafkasim.model.streams.state.manager import StateManager
from kafkasim.model.streams.states import TASK_MOVES, TaskState
from kafkasim.model.streams.task import TaskTopology
from kafkasim.model.streams.task_id import TaskId

Offsets = dict[TopicPartition, tuple[int, int, str]]
"""What a task commits: by input partition the offset, its leader epoch (−1: none), and metadata"""


class TaskFacts(Protocol):
    """Where a task says what it does."""

    group: str
    thread: int
    port: Port


class Task:
    """One task of a thread."""

    role: ClassVar[str]

    def __init__(
        self,
        task_id: TaskId,
        partitions: Iterable[TopicPartition],
        topology: TaskTopology,
        manager: StateManager,
        told: TaskFacts,
        task_timeout_ms: int,
    ) -> None:
        self.id = task_id
        self.partitions = tuple(sorted(partitions))
        self.state = TaskState.CREATED
        self.topology = topology
        self.manager = manager
        self.told = told
        self.commit_needed = False
        self._timeout_ms = task_timeout_ms
        self._deadline_ms: int | None = None  # without progress the task fails then

    @property
    def active(self) -> bool:
        """Whether it processes records."""
        return self.role == "active"

    def move(self, state: TaskState, reason: str) -> None:
        """Change the state."""
        assert state in TASK_MOVES[self.state], (self.id, self.state, state)
        self.state = state
        told = self.told
        told.port.record(
            facts.TaskState(told.group, told.thread, str(self.id), self.role, state.value, reason)
        )

    async def initialize(self) -> None:
        """Open the stores, and begin to restore or update (initializeIfNeeded)."""
        raise NotImplementedError

    async def suspend(self, reason: str) -> None:
        """Stop using the stores; the task may be resumed, closed or recycled then."""
        raise NotImplementedError

    async def prepare_commit(self) -> Offsets:
        """Flush what is to be sent before a commit; return the offsets to commit."""
        raise NotImplementedError

    async def post_commit(self, force: bool) -> None:
        """Write a checkpoint, if it is due or ``force``."""
        raise NotImplementedError

    async def close(self, clean: bool, reason: str) -> None:
        """Close the stores."""
        raise NotImplementedError

    async def recycle(self) -> None:
        """End in this role; the stores go on in the other one (prepareRecycle).

        Raises:
            TaskMigrated: something is not committed; the task has to be closed dirty.
        """
        self.validate_clean()
        assert self.state is TaskState.SUSPENDED, (self.id, self.state)
        self.move(TaskState.CLOSED, "recycled")

    def revive(self) -> None:
        """Begin anew after a corruption."""
        self.move(TaskState.CREATED, "revived")

    def validate_clean(self) -> None:
        """Raise TaskMigrated if something is not committed (validateClean)."""
        if self.commit_needed:
            raise TaskMigrated(f"Tried to close dirty task {self.id} as clean")

    def fail_after_timeout(self, now_ms: int, error: BaseException) -> None:
        """Allow a task without progress task.timeout.ms (maybeInitTaskTimeoutOrThrow).

        Raises:
            StreamsError: that time is over.
        """
        if self._deadline_ms is None:
            self._deadline_ms = now_ms + self._timeout_ms
        elif now_ms > self._deadline_ms:
            raise StreamsError(f"Task {self.id} did not make progress within task.timeout.ms")

    def made_progress(self) -> None:
        """Forget the deadline."""
        self._deadline_ms = None

    async def maybe_checkpoint(self, force: bool) -> None:
        """Flush the stores and write the checkpoint file, if it is due or ``force``."""
        await self.manager.maybe_checkpoint(force)


class StandbyTask(Task):
    """A replica that reads changelogs all the time; a warm-up is one, too."""

    role = "standby"

    async def initialize(self) -> None:
        """Open the stores; an update begins at once."""
        if self.state is TaskState.CREATED:
            await self.manager.open(self.topology.stores)
            self.manager.start_snapshot()
            self.move(TaskState.RESTORING, "created")
            self.move(TaskState.RUNNING, "created")

    async def suspend(self, reason: str) -> None:
        """Stop."""
        if self.state is not TaskState.SUSPENDED:
            self.move(TaskState.SUSPENDED, reason)

    async def prepare_commit(self) -> Offsets:
        """Nothing is committed."""
        return {}

    async def post_commit(self, force: bool) -> None:
        """Write a checkpoint, if it is due or ``force``."""
        if self.state is not TaskState.CREATED:
            await self.maybe_checkpoint(force)

    async def close(self, clean: bool, reason: str) -> None:
        """Close the stores."""
        if self.state is not TaskState.CLOSED:
            await self.manager.close(clean, reason)
            self.move(TaskState.CLOSED, reason)
