"""Reading changelogs beside the stream thread: restoring active tasks, updating standbys.

Models DefaultStateUpdater and StoreChangelogReader. Each stream thread has one updater with a
restore consumer of its own. While any active task restores, the changelogs of standbys are paused.
A restore ends where the changelog ended when it began (ListOffsets with read_uncommitted); under
exactly_once_v2 the restore consumer reads committed records only.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client.exceptions import KafkaError, OffsetOutOfRangeError
from kafkasim.model.facts.streams import RestoreBegan, Restored
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.errors import StreamsError, TaskCorrupted
from kafkasim.model.streams.port import Client, Port, Promise, Serdes, wall_ms
from kafkasim.model.streams.states import ChangelogState, ReaderState
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.stream_task import StreamTask
from kafkasim.model.streams.tasks.task import Task

Removed = tuple[Task, "Exception | None"]
"""A task that the updater gave back, and why it failed, if it did"""


@dataclass(slots=True)
class Changelog:
    """A changelog partition that is read for a task (ChangelogMetadata)."""

    tp: TopicPartition
    task: Task
    state: ChangelogState = ChangelogState.REGISTERED
    end_offset: int = -1  # where the restore of an active task ends
    start_offset: int = 0
    records: int = 0  # that were applied


class StateUpdater:
    """The updater of one stream thread."""

    def __init__(
        self,
        port: Port,
        consumer: Client,
        offsets: Client,
        serdes: Serdes,
        *,
        group: str,
        thread: int,
        poll_ms: int,
        commit_interval_ms: int,
    ) -> None:
        """``offsets`` is a client that lists end offsets, committed or not."""
        self._port = port
        self._consumer = consumer
        self._offsets = offsets
        self._serdes = serdes
        self._group = group
        self._thread = thread
        self._poll_ms = poll_ms
        self._commit_interval_ms = commit_interval_ms
        self._added: list[Task] = []
        self._to_remove: list[tuple[TaskId, Promise]] = []
        self._updating: dict[TaskId, Task] = {}
        self._restored: list[StreamTask] = []
        self._failed: list[tuple[Task, Exception]] = []
        self._changelogs: dict[TopicPartition, Changelog] = {}
        self._reader = ReaderState.ACTIVE_RESTORING
        self._idle: Promise | None = None
        self._last_commit_ms = 0
        self._running = True
        self._ended = port.promise()

    # What the stream thread asks.

    def tasks(self) -> list[Task]:
        """Return all tasks that the updater has, by id."""
        every = [*self._added, *self._updating.values(), *self._restored]
        every += [task for task, _ in self._failed]
        return sorted(every, key=lambda task: task.id)

    def restores_active(self) -> bool:
        """Return whether an active task is here (restoresActiveTasks)."""
        every = [*self._added, *self._updating.values(), *self._restored]
        return any(task.active for task in every)

    def add(self, task: Task) -> None:
        """Take a task that is initialized."""
        self._added.append(task)
        self._wake()

    async def remove(self, task_id: TaskId) -> Removed | None:
        """Give a task back; None if it is not here. A restoring one has its progress on disk."""
        answer = self._port.promise()
        self._to_remove.append((task_id, answer))
        self._wake()
        removed: Removed | None = await answer
        return removed

    def take_restored(self) -> list[StreamTask]:
        """Return the active tasks that are restored, once."""
        restored, self._restored = self._restored, []
        return restored

    def take_failed(self) -> list[tuple[Task, Exception]]:
        """Return the tasks that failed, and why, once."""
        failed, self._failed = self._failed, []
        return failed

    async def stop(self) -> None:
        """End the updater's thread, and close its consumer."""
        self._running = False
        self._wake()
        await self._ended
        await self._consumer.call("close")

    # The updater's thread.

    async def run(self) -> None:
        """Update until it is stopped."""
        while self._running:
            try:
                await self._run_once()
            except TaskCorrupted as error:
                await self._on_corrupted(error)
            except (StreamsError, KafkaError) as error:
                self._fail(list(self._updating.values()), error)
        self._ended.set_result(None)

    async def _run_once(self) -> None:
        await self._perform_actions()
        await self._initialize_changelogs()
        await self._restore()
        await self._checkpoint()
        if self._is_idle():
            self._idle = self._port.promise()
            await self._idle
            self._idle = None

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.done():
            self._idle.set_result(None)

    def _is_idle(self) -> bool:
        completed = all(c.state is ChangelogState.COMPLETED for c in self._changelogs.values())
        nothing = completed or not self._updating
        return self._running and nothing and not self._added and not self._to_remove

    async def _perform_actions(self) -> None:
        added, self._added = self._added, []
        for task in added:
            await self._add(task)
        to_remove, self._to_remove = self._to_remove, []
        for task_id, answer in to_remove:
            answer.set_result(await self._remove(task_id))

    async def _add(self, task: Task) -> None:
        changelogs = task.manager.changelogs
        if isinstance(task, StreamTask) and not changelogs:
            self._restored.append(task)
            return
        self._updating[task.id] = task
        for tp in changelogs:
            assert tp not in self._changelogs, tp
            self._changelogs[tp] = Changelog(tp, task)
        if task.active:
            await self._enforce_restore_active()
        elif len(self._updating) == 1:
            await self._update_standbys()

    async def _remove(self, task_id: TaskId) -> Removed | None:
        task = self._updating.get(task_id)
        if task is not None:
            await task.maybe_checkpoint(True)
            await self._unregister(task)
            return task, None
        for restored in self._restored:
            if restored.id == task_id:
                self._restored.remove(restored)
                return restored, None
        for failed, error in self._failed:
            if failed.id == task_id:
                self._failed.remove((failed, error))
                return failed, error
        return None

    async def _unregister(self, task: Task) -> None:
        self._updating.pop(task.id, None)
        gone = [self._changelogs.pop(tp, None) for tp in task.manager.changelogs]
        if any(each is not None and each.state is not ChangelogState.REGISTERED for each in gone):
            await self._assign()
        if not self._changelogs:
            self._reader = ReaderState.ACTIVE_RESTORING
        left = self._updating.values()
        if task.active and left and not any(each.active for each in left):
            await self._update_standbys()

    async def _assign(self) -> None:
        read = [c.tp for c in self._changelogs.values() if c.state is not ChangelogState.REGISTERED]
        await self._consumer.call("assign", tuple(read))

    def _standbys(self) -> tuple[TopicPartition, ...]:
        return tuple(
            [
                each.tp
                for each in self._changelogs.values()
                if each.state is ChangelogState.RESTORING and not each.task.active
            ]
        )

    async def _enforce_restore_active(self) -> None:
        if self._reader is not ReaderState.ACTIVE_RESTORING:
            self._reader = ReaderState.ACTIVE_RESTORING
            await self._consumer.call("pause", self._standbys())

    async def _update_standbys(self) -> None:
        if self._reader is not ReaderState.STANDBY_UPDATING:
            self._reader = ReaderState.STANDBY_UPDATING
            await self._consumer.call("resume", self._standbys())

    # Changelogs.

    async def _initialize_changelogs(self) -> None:
        """Find where new changelogs end and begin, and read them (initializeChangelogs)."""
        new = [c for c in self._changelogs.values() if c.state is ChangelogState.REGISTERED]
        if not new:
            return
        wanted = tuple([each.tp for each in new if each.task.active])
        ends: dict[TopicPartition, int | None] = {}
        if wanted:
            ends = await self._offsets.call("end_offsets", wanted)
        ready = [c for c in new if c.tp in self._changelogs]
        ready = [c for c in ready if not c.task.active or ends.get(c.tp) is not None]
        for changelog in ready:
            changelog.end_offset = ends.get(changelog.tp) or 0 if changelog.task.active else -1
            changelog.state = ChangelogState.RESTORING
        await self._assign()
        if self._reader is ReaderState.ACTIVE_RESTORING:
            await self._consumer.call("pause", self._standbys())
        await self._seek(ready)

    async def _seek(self, changelogs: Iterable[Changelog]) -> None:
        from_start = []
        for changelog in changelogs:
            offset = changelog.task.manager.of_changelog(changelog.tp).offset
            if offset is None:
                from_start.append(changelog.tp)
            else:
                changelog.start_offset = offset + 1
                await self._consumer.call("seek", changelog.tp, offset + 1)
            task = changelog.task
            self._port.record(
                RestoreBegan(
                    self._group, self._thread, str(task.id), task.role, *changelog.tp,
                    changelog.start_offset, changelog.end_offset,
                )
            )  # fmt: skip
        if from_start:
            await self._consumer.call("seek_to_beginning", tuple(from_start))

    async def _restore(self) -> None:
        """Poll, apply what was read, and see which restores are complete.

        Raises:
            TaskCorrupted: a changelog has no record at a position: it was compacted away, cut off,
                or created anew.
        """
        reading = [c for c in self._changelogs.values() if c.state is ChangelogState.RESTORING]
        if reading:
            try:
                kind, polled = await self._consumer.call("poll", self._poll_ms)
            except OffsetOutOfRangeError as error:
                out = [c.task.id for c in reading if str(c.tp) in error.detail]
                raise TaskCorrupted(out or [c.task.id for c in reading], str(error)) from error
            assert kind == "records", kind
            for tp, records in polled.items():
                changelog = self._changelogs.get(tp)
                if changelog is not None and changelog.state is ChangelogState.RESTORING:
                    self._apply(changelog, records)
        for changelog in reading:
            active = changelog.task.active and changelog.tp in self._changelogs
            if active and await self._is_at_end(changelog):
                changelog.state = ChangelogState.COMPLETED
                await self._consumer.call("pause", (changelog.tp,))
        await self._complete()

    def _apply(self, changelog: Changelog, records: Any) -> None:
        task, tp = changelog.task, changelog.tp
        writes = [
            (offset, (self._serdes.key_in(tp.topic, key), self._serdes.value_in(value), timestamp))
            for offset, value, key, timestamp in records
            if key is not None and (not task.active or offset < changelog.end_offset)
        ]
        if not writes:
            return
        first = writes[0][0]
        size = task.manager.restore(tp, writes)
        changelog.records += len(writes)
        self._port.record(
            Restored(
                self._group, self._thread, str(task.id), task.role, *tp, first,
                writes[-1][0] + 1, len(writes), size,
            )
        )  # fmt: skip

    async def _is_at_end(self, changelog: Changelog) -> bool:
        if changelog.end_offset == 0:
            return True
        position = await self._consumer.call("position", changelog.tp)
        return position is not None and position >= changelog.end_offset

    async def _complete(self) -> None:
        """Hand over the active tasks whose changelogs are all read (maybeCompleteRestoration)."""
        for task in list(self._updating.values()):
            if not isinstance(task, StreamTask):
                continue
            own = [self._changelogs[tp] for tp in task.manager.changelogs]
            if all(each.state is ChangelogState.COMPLETED for each in own):
                await task.maybe_checkpoint(True)
                await self._unregister(task)
                self._restored.append(task)

    async def _checkpoint(self) -> None:
        now_ms = wall_ms(self._port)
        if now_ms - self._last_commit_ms > self._commit_interval_ms:
            for task in list(self._updating.values()):
                await task.maybe_checkpoint(False)
            self._last_commit_ms = now_ms

    async def _on_corrupted(self, error: TaskCorrupted) -> None:
        """Hand corrupted tasks over, with checkpoints that leave their changelogs out."""
        for task_id in error.tasks:
            task = self._updating.get(task_id)
            if task is not None:
                task.manager.mark_corrupted()
                await task.maybe_checkpoint(True)
                await self._unregister(task)
                self._failed.append((task, TaskCorrupted([task_id], error.reason)))

    def _fail(self, tasks: list[Task], error: Exception) -> None:
        for task in tasks:
            self._updating.pop(task.id, None)
            for tp in task.manager.changelogs:
                self._changelogs.pop(tp, None)
            self._failed.append((task, error))
