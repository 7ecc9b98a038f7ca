"""What can go wrong in an application of Kafka Streams, by what follows from it."""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model.streams.task_id import TaskId


class StreamsError(Exception):
    """Fatal: the uncaught exception handler decides, by default to stop the client."""


class MissingSourceTopic(StreamsError):
    """An input topic does not exist (MissingSourceTopicException)."""


class TaskMigrated(StreamsError):
    """The thread is no longer in its group, or its producer is fenced: it loses all its tasks."""


class TaskCorrupted(StreamsError):
    """The state of tasks cannot be trusted: they are closed dirty and revived."""

    def __init__(self, tasks: Iterable[TaskId], reason: str = "") -> None:
        super().__init__(tuple(tasks), reason)
        self.tasks: tuple[TaskId, ...] = tuple(self.args[0])
        self.reason = reason

    def __str__(self) -> str:
        return f"{', '.join(map(str, self.tasks))} corrupted: {self.reason}"


class DirectoryLocked(StreamsError):
    """Another thread has the directory of a task (LockException): try again later."""
