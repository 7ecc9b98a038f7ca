"""The name of a task: the partitions of one number of all input topics of a subtopology."""

from __future__ import annotations

from typing import NamedTuple


class TaskId(NamedTuple):
    """A task of an application; ordered by subtopology, then by partition."""

    subtopology: int
    partition: int

    def __str__(self) -> str:
        return f"{self.subtopology}_{self.partition}"

    @classmethod
    def parse(cls, text: str) -> TaskId:
        """Return the task of a text such as ``0_3``.

        Raises:
            ValueError: it is not two numbers.
        """
        subtopology, _, partition = text.partition("_")
        return cls(int(subtopology), int(partition))


def java_hash(task: TaskId) -> int:
    """Return TaskId.hashCode without its sign: Objects.hash(subtopology, partition, null)."""
    return (((31 + task.subtopology) * 31 + task.partition) * 31) & 0xFFFFFFFF
