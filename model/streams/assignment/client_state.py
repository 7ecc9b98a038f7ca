"""One process of the application, as the assignor of tasks sees it: Kafka's ClientState.

Process ids are ordered as texts; Kafka orders UUIDs as two signed numbers. Both orders are
arbitrary.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.task_id import TaskId

LATEST_OFFSET = -2
"""The offset sum of a running active task, and its lag (Task.LATEST_OFFSET)."""

UNKNOWN_OFFSET_SUM = -3
"""An offset sum, or a lag, that nobody knows (SubscriptionInfo.UNKNOWN_OFFSET_SUM)."""


class ClientState:
    """The threads of a process, what they have and had, and what they are to get."""

    def __init__(self, capacity: int = 0) -> None:
        self.capacity = capacity  # threads: consumers of the process in the group
        self.active: dict[TaskId, None] = {}  # assigned
        self.standby: dict[TaskId, None] = {}  # assigned; a warm-up is one, too
        self.previous_active: dict[TaskId, None] = {}
        self.previous_standby: dict[TaskId, None] = {}
        self.lags: dict[TaskId, int] = {}  # records behind, of every stateful task
        self._offset_sums: dict[TaskId, int] = {}  # of the tasks that it has state of
        self._owned: dict[TopicPartition, str] = {}  # consumer that has the partition
        self._of_consumer: dict[str, tuple[TaskId, ...]] = {}  # stateful tasks that it had

    # What members told.

    def add_consumer(
        self, consumer: str, owned: Iterable[TopicPartition], offset_sums: Mapping[TaskId, int]
    ) -> None:
        """Take a thread's partitions and the offset sums of the tasks that it has state of."""
        self.capacity += 1
        self._owned |= dict.fromkeys(owned, consumer)
        self._offset_sums |= offset_sums
        self._of_consumer[consumer] = tuple(offset_sums)

    def initialize_previous(self, task_of: Mapping[TopicPartition, TaskId]) -> None:
        """Learn the tasks that the process had: owned partitions first, then offset sums."""
        for tp in sorted(self._owned):
            if tp in task_of:
                self.previous_active[task_of[tp]] = None
        for task in sorted(self._offset_sums):
            if task not in self.previous_active:
                running = self._offset_sums[task] == LATEST_OFFSET
                (self.previous_active if running else self.previous_standby)[task] = None

    def compute_lags(self, end_sums: Mapping[TaskId, int]) -> None:
        """Compute the lag of each stateful task from the end offsets of its changelogs.

        A sum above the end offsets is of a changelog that was created anew: all is to be restored.
        """
        for task, end in end_sums.items():
            known = self._offset_sums.get(task, 0)
            if known in (LATEST_OFFSET, UNKNOWN_OFFSET_SUM):
                self.lags[task] = known
            else:
                self.lags[task] = end if end < known else end - known

    def previous_owner(self, tp: TopicPartition) -> str | None:
        """Return the consumer of the process that owns a partition."""
        return self._owned.get(tp)

    def previous_by_lag(self, consumer: str) -> list[TaskId]:
        """Return the stateful tasks that a consumer had, the least lag first."""
        had = [task for task in self._of_consumer.get(consumer, ()) if task in self.lags]
        return sorted(had, key=lambda task: (self.lags[task], task))

    # What it is assigned.

    @property
    def count(self) -> int:
        """The number of assigned tasks."""
        return len(self.active) + len(self.standby)

    @property
    def load(self) -> float:
        """Assigned tasks for each thread."""
        return self.count / self.capacity

    @property
    def active_load(self) -> float:
        """Assigned active tasks for each thread."""
        return len(self.active) / self.capacity

    def has(self, task: TaskId) -> bool:
        """Return whether a task is assigned, in whatever role."""
        return task in self.active or task in self.standby

    def assign_active(self, task: TaskId) -> None:
        """Assign a task that it does not have."""
        assert not self.has(task), (task, self.active, self.standby)
        self.active[task] = None

    def assign_standby(self, task: TaskId) -> None:
        """Assign a replica of a task that it does not have."""
        assert not self.has(task), (task, self.active, self.standby)
        self.standby[task] = None
