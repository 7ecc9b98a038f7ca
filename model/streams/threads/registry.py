"""The tasks that a stream thread has itself, and those that wait to be initialized (Tasks).

Tasks that restore, and standbys, are with the state updater.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.stream_task import StreamTask
from kafkasim.model.streams.tasks.task import Task


class Tasks:
    """The tasks of one thread."""

    def __init__(self) -> None:
        self._owned: dict[TaskId, Task] = {}
        self._failed: dict[TaskId, None] = {}
        self._pending: list[Task] = []  # to be initialized and given to the updater

    def add(self, task: Task) -> None:
        """Take a task that is restored, or that is to be handled by the thread."""
        assert task.id not in self._owned, task.id
        self._owned[task.id] = task

    def add_failed(self, task: Task) -> None:
        """Take a task that has failed."""
        self._owned[task.id] = task
        self._failed[task.id] = None

    def remove(self, task: Task) -> None:
        """Forget a task; one that is not here is no error."""
        self._owned.pop(task.id, None)
        self._failed.pop(task.id, None)

    def get(self, task_id: TaskId) -> Task | None:
        """Return a task."""
        return self._owned.get(task_id)

    def owned(self) -> list[Task]:
        """Return all tasks that the thread has, by id."""
        return [self._owned[task_id] for task_id in sorted(self._owned)]

    def not_failed(self) -> list[Task]:
        """Return those that have not failed."""
        return [task for task in self.owned() if task.id not in self._failed]

    def active(self) -> list[StreamTask]:
        """Return the active tasks."""
        return [task for task in self.owned() if isinstance(task, StreamTask)]

    def of_partition(self, tp: TopicPartition) -> StreamTask | None:
        """Return the active task that reads a partition."""
        return next((task for task in self.active() if tp in task.partitions), None)

    def add_pending(self, tasks: Iterable[Task]) -> None:
        """Take tasks that are to be initialized."""
        self._pending += tasks

    def has_pending(self) -> bool:
        """Return whether tasks wait to be initialized."""
        return bool(self._pending)

    def pending(self) -> list[Task]:
        """Return the tasks that wait to be initialized."""
        return list(self._pending)

    def take_pending(self, which: Callable[[Task], bool] = lambda _: True) -> list[Task]:
        """Return the tasks that wait to be initialized, once."""
        taken = [task for task in self._pending if which(task)]
        self._pending = [task for task in self._pending if not which(task)]
        return taken
