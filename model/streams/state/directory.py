"""The state directory of an instance: one directory for each task, its locks, its checkpoint file.

Models StateDirectory and OffsetCheckpoint. An instance owns its directory alone, so what is on disk
is read once, when the instance starts, and known from then on. The locks of tasks are in memory, as
in Kafka since 3.0: they keep the threads of one instance apart.

    <application.id>/kafka-streams-process-metadata    the process id
    <application.id>/<task>/.checkpoint                {changelog partition: last offset in stores}
    <application.id>/<task>/rocksdb/<store>            what was flushed of a store
"""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

from kafkasim.model.facts.streams import Checkpointed, StateWiped
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.port import Port
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.values import random_uuid

OFFSET_UNKNOWN = -4
"""In a checkpoint: nothing of the changelog is in the store (OffsetCheckpoint.OFFSET_UNKNOWN)."""

PROCESS_FILE = "kafka-streams-process-metadata"
CHECKPOINT = ".checkpoint"

Checkpoint = Mapping[TopicPartition, int]


class StateDirectory:
    """What one incarnation of an instance knows of its directory, and does to it."""

    def __init__(self, port: Port, application_id: str) -> None:
        self._port = port
        self._application_id = application_id
        self._checkpoints: dict[TaskId, Checkpoint] = {}
        self._files: dict[TaskId, dict[str, None]] = {}  # stores of a task, by path
        self._modified_ms: dict[TaskId, int] = {}
        self._owners: dict[TaskId, str] = {}  # thread that has the lock
        self.process_id = ""

    @classmethod
    async def open(cls, port: Port, application_id: str, rng: random.Random) -> StateDirectory:
        """Read the directory; draw a process id for a new one (initializeProcessId)."""
        directory = cls(port, application_id)
        for path in await port.call("disk.list", f"{application_id}/"):
            name, _, rest = path.removeprefix(f"{application_id}/").partition("/")
            if name == PROCESS_FILE:
                directory.process_id = (await port.call("disk.read", path))[0]
            elif rest == CHECKPOINT:
                items = await port.call("disk.read", path)
                directory._checkpoints[TaskId.parse(name)] = items[0]
            elif rest:
                directory._files.setdefault(TaskId.parse(name), {})[path] = None
        if not directory.process_id:
            directory.process_id = random_uuid(rng)
            item = directory.process_id
            await port.call("disk.replace", f"{application_id}/{PROCESS_FILE}", item, 64)
        return directory

    # Locks.

    def lock(self, task: TaskId, thread: str) -> bool:
        """Take the lock of a task for a thread; return whether it has it now."""
        return self._owners.setdefault(task, thread) == thread

    def unlock(self, task: TaskId, thread: str) -> None:
        """Give the lock of a task back, if the thread has it."""
        if self._owners.get(task) == thread:
            del self._owners[task]

    # What there is.

    def tasks(self) -> list[TaskId]:
        """Return the tasks whose directories have more than a checkpoint file."""
        return sorted([task for task, files in self._files.items() if files])

    def is_empty(self, task: TaskId) -> bool:
        """Return whether a task's directory has no files but a checkpoint."""
        return not self._files.get(task)

    def checkpoint(self, task: TaskId) -> Checkpoint | None:
        """Return what the checkpoint file of a task says, None without one."""
        return self._checkpoints.get(task)

    def store_path(self, task: TaskId, store: str) -> str:
        """Return the path of a store's file."""
        return f"{self._application_id}/{task}/rocksdb/{store}"

    # What is done.

    async def read(self, path: str) -> list[Any]:
        """Return the items of a store's file; none if there is no such file."""
        items: list[Any] = await self._port.call("disk.read", path)
        return items

    def append(self, task: TaskId, path: str, item: Any, size: int) -> Any:
        """Append to a store's file; awaiting what is returned waits until it is durable."""
        self._files.setdefault(task, {})[path] = None
        self._modified_ms[task] = self._port.wall_us // 1000
        return self._port.call("disk.append", path, item, size, True)

    async def write_checkpoint(self, task: TaskId, offsets: Checkpoint) -> None:
        """Replace the checkpoint file of a task."""
        self._checkpoints[task] = dict(offsets)
        told = tuple([f"{tp}@{offset}" for tp, offset in sorted(offsets.items())])
        self._port.record(Checkpointed(self._application_id, str(task), told))
        path = f"{self._application_id}/{task}/{CHECKPOINT}"
        await self._port.call("disk.replace", path, dict(offsets), 20 + 40 * len(offsets))

    async def delete_checkpoint(self, task: TaskId) -> None:
        """Delete the checkpoint file of a task, if there is one."""
        if self._checkpoints.pop(task, None) is not None:
            await self._port.call("disk.delete", f"{self._application_id}/{task}/{CHECKPOINT}")

    async def wipe(self, task: TaskId, reason: str) -> None:
        """Delete the directory of a task with all that is in it."""
        had = bool(self._files.pop(task, None)) | (self._checkpoints.pop(task, None) is not None)
        self._modified_ms.pop(task, None)
        if had:
            self._port.record(StateWiped(self._application_id, str(task), reason))
            await self._port.call("disk.delete", f"{self._application_id}/{task}/")

    async def clean(self, thread: str, delay_ms: int) -> None:
        """Delete directories of tasks that nobody has locked for ``delay_ms`` (cleaner thread)."""
        now_ms = self._port.wall_us // 1000
        for task in self.tasks():
            modified = self._modified_ms.setdefault(task, now_ms)
            if task not in self._owners and now_ms - modified > delay_ms:
                self.lock(task, thread)
                await self.wipe(task, "cleaner")
                self.unlock(task, thread)
