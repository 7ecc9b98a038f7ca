"""What a thread does with its tasks when the group, or an error, says so (TaskManager).

Tasks move between four places: they wait to be initialized, restore or stand by in the state
updater, are owned by the thread (running or suspended), or have failed.

    assigned ──▶ pending ──▶ state updater ──▶ owned by the thread ──▶ closed
                                  ▲     ◀── resumed ──  │ revoked: suspended
                                  └──── recycled ───────┘
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.errors import (
    DirectoryLocked,
    StreamsError,
    TaskCorrupted,
    TaskMigrated,
)
from kafkasim.model.streams.port import Client, Port, wall_ms
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.state.directory import OFFSET_UNKNOWN, StateDirectory
from kafkasim.model.streams.state.updater import StateUpdater
from kafkasim.model.streams.states import TaskState
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.producer import StreamsProducer
from kafkasim.model.streams.tasks.stream_task import StreamTask
from kafkasim.model.streams.tasks.task import Task
from kafkasim.model.streams.threads.executor import Prepared, TaskExecutor
from kafkasim.model.streams.threads.making import TaskMaker
from kafkasim.model.streams.threads.registry import Tasks

LATEST_OFFSET = -2
LOCK_BACKOFF_MS = 1000
LOCK_BACKOFF_MAX_MS = 10_000

Wanted = Mapping[TaskId, Sequence[TopicPartition]]
"""Tasks with their input partitions"""

Errors = dict[TaskId, Exception]


class TaskManager:
    """The tasks of one thread."""

    def __init__(
        self,
        port: Port,
        name: str,
        directory: StateDirectory,
        maker: TaskMaker,
        updater: StateUpdater,
        executor: TaskExecutor,
        producer: StreamsProducer,
        consumer: Client,
        tasks: Tasks,
        rules: StreamsRules,
        *,
        exactly_once: bool,
    ) -> None:
        """``name`` is that of the thread, which owns locks."""
        self._port = port
        self._name = name
        self._directory = directory
        self._maker = maker
        self._updater = updater
        self.executor = executor
        self._producer = producer
        self._consumer = consumer
        self.tasks = tasks
        self._rules = rules
        self._exactly_once = exactly_once
        self.rebalancing = False  # nothing is committed meanwhile
        self._locked: dict[TaskId, None] = {}  # directories locked for the sake of offset sums
        self._lock_attempts: dict[TaskId, tuple[int, int]] = {}  # (attempts, not before)

    # Rebalances.

    def on_rebalance_start(self) -> None:
        """Lock the directories of tasks, whose state counts for the assignment."""
        self._locked.clear()
        for task_id in self._directory.tasks():
            if self._directory.lock(task_id, self._name):
                if self._directory.is_empty(task_id):  # the cleaner was here (KAFKA-16025)
                    self._directory.unlock(task_id, self._name)
                else:
                    self._locked[task_id] = None
        self.rebalancing = True

    async def on_rebalance_complete(self) -> None:
        """Pause the inputs of tasks that do not run yet; give locks back."""
        running = {tp: None for task in self.tasks.not_failed() for tp in task.partitions}
        assigned = await self._consumer.call("assignment")
        paused = tuple([tp for tp in assigned if tp not in running])
        if paused:
            await self._consumer.call("pause", paused)
        self.release_directories()
        self.rebalancing = False

    def release_directories(self) -> None:
        """Give back the locks of directories whose tasks the thread does not have."""
        known = self.all_tasks()
        for task_id in list(self._locked):
            if task_id not in known:
                self._directory.unlock(task_id, self._name)
                del self._locked[task_id]

    def offset_sums(self) -> dict[TaskId, int]:
        """Return how far the state of each task is that the thread has or has locked."""
        sums: dict[TaskId, int] = {}
        on_disk = dict(self._locked)
        for task_id, task in self.all_tasks().items():
            if task.state in (TaskState.CREATED, TaskState.CLOSED):
                on_disk[task_id] = None
                continue
            on_disk.pop(task_id, None)
            offsets = task.manager.next_offsets()
            if offsets:
                running = task.active and task.state is TaskState.RUNNING
                sums[task_id] = LATEST_OFFSET if running else sum(offsets.values())
        for task_id in sorted(on_disk):
            checkpoint = self._directory.checkpoint(task_id)
            if checkpoint is not None:
                known = [offset for offset in checkpoint.values() if offset != OFFSET_UNKNOWN]
                sums[task_id] = sum(known)
        return sums

    def all_tasks(self) -> dict[TaskId, Task]:
        """Return every task of the thread, wherever it is."""
        every = [*self._updater.tasks(), *self.tasks.owned(), *self.tasks.pending()]
        return {task.id: task for task in every}

    async def on_assignment(self, active: Wanted, standby: Wanted) -> None:
        """Take over an assignment: close, recycle and create tasks (handleAssignment).

        Raises:
            TaskMigrated, TaskCorrupted, StreamsError: of tasks that could not be closed, or that
                had failed in the state updater.
        """
        new_active, new_standby = dict(active), dict(standby)
        failed: Errors = {}
        for task in self.tasks.take_pending():
            await self._close_clean(task, failed)
        await self._sort_out_updater(new_active, new_standby, failed)
        await self._sort_out_owned(new_active, new_standby, failed)
        for task, error in self._updater.take_failed():
            self.tasks.add_failed(task)
            failed[task.id] = error
        _raise_worst(failed)
        made: list[Task] = [self._maker.active(task, tps) for task, tps in new_active.items()]
        made += [self._maker.standby(task, tps) for task, tps in new_standby.items()]
        self.tasks.add_pending(sorted(made, key=lambda task: task.id))

    async def _sort_out_updater(
        self,
        active: dict[TaskId, Sequence[TopicPartition]],
        standby: dict[TaskId, Sequence[TopicPartition]],
        failed: Errors,
    ) -> None:
        """Keep, recycle or close the tasks that the state updater has."""
        for task in self._updater.tasks():
            wanted = "active" if task.id in active else "standby" if task.id in standby else ""
            active.pop(task.id, None)
            standby.pop(task.id, None)
            if wanted == task.role:
                continue
            removed = await self._updater.remove(task.id)
            if removed is None:
                continue
            found, error = removed
            if error is not None:
                failed[found.id] = error
                self.tasks.add_failed(found)
            elif wanted:
                await self._recycle(found, failed)
            else:
                await self._close_clean(found, failed)

    async def _sort_out_owned(
        self,
        active: dict[TaskId, Sequence[TopicPartition]],
        standby: dict[TaskId, Sequence[TopicPartition]],
        failed: Errors,
    ) -> None:
        """Keep, resume, recycle or close the tasks that the thread has."""
        for task in self.tasks.not_failed():
            if active.pop(task.id, None) is not None:
                if task.state is TaskState.SUSPENDED and isinstance(task, StreamTask):
                    self.tasks.remove(task)
                    await task.resume()
                    self._updater.add(task)
            elif standby.pop(task.id, None) is not None:
                self.tasks.remove(task)
                if task.commit_needed and self._rules.refuses_dirty_recycling():
                    await self.close_dirty(task, "uncommitted")
                else:
                    await self._recycle(task, failed)
            elif task.commit_needed:
                self.tasks.remove(task)
                await self.close_dirty(task, "uncommitted")
            else:
                self.tasks.remove(task)
                await self._close_clean(task, failed)

    async def _recycle(self, task: Task, failed: Errors) -> None:
        try:
            await task.suspend("recycled")
            self.tasks.add_pending([await self._maker.recycled(task)])
        except (StreamsError, KafkaError) as error:
            failed[task.id] = error
            await self.close_dirty(task, "cannot be recycled")

    async def _close_clean(self, task: Task, failed: Errors) -> None:
        try:
            await task.suspend("closed")
            await task.close(True, "closed")
        except (StreamsError, KafkaError) as error:
            failed[task.id] = error
            await self.close_dirty(task, "cannot be closed")

    async def on_revocation(self, revoked: Iterable[TopicPartition]) -> None:
        """Commit, and suspend the tasks whose inputs are revoked (handleRevocation).

        Raises:
            TaskMigrated, StreamsError: the commit failed, and the tasks are suspended all the same;
                or it could not be prepared, and they still run with what is uncommitted.
        """
        gone = dict.fromkeys(revoked)
        tasks = [t for t in self.tasks.active() if all(tp in gone for tp in t.partitions)]
        others = [t for t in self.tasks.active() if t not in tasks and t.commit_needed]
        await self._revoke_in_updater(gone)
        prepared: Prepared = {}
        first: Exception | None = None
        dirty: list[Task] = []
        wanted = any(task.commit_needed for task in tasks)
        for task in tasks:
            await self.executor.prepare(task, prepared)
        if prepared:
            for task in others:
                await self.executor.prepare(task, prepared)
        try:
            if wanted or not self._rules.commits_only_for_revoked():
                await self.executor.commit_prepared(prepared)
        except TaskCorrupted as error:
            dirty = [t for t in [*tasks, *others] if t.id in error.tasks]
            await self._close_and_revive(dirty, True)
        except KafkaTimeoutError:
            dirty = list(prepared)
            await self._close_and_revive(dirty, False)
        except StreamsError as error:
            first, dirty = error, list(prepared)
        for task in tasks:
            if task not in dirty:
                if task.commit_needed and first is None:
                    self.executor.tell_without_offsets(task, prepared)
                await task.post_commit(True)
        for task in others if prepared else ():
            if task not in dirty:
                await task.post_commit(False)
        for task in tasks:
            if task.state is not TaskState.CREATED:
                await task.suspend("revoked")
        if first is not None:
            raise first

    async def _revoke_in_updater(self, gone: Mapping[TopicPartition, None]) -> None:
        failed: Errors = {}
        for task in self._updater.tasks():
            if task.active and all(tp in gone for tp in task.partitions):
                removed = await self._updater.remove(task.id)
                if removed is None:
                    continue
                found, error = removed
                if error is None:
                    await found.suspend("revoked")
                    self.tasks.add(found)
                else:
                    failed[found.id] = error
                    self.tasks.add_failed(found)
        _raise_worst(failed)

    async def on_lost_all(self) -> None:
        """Close all active tasks: the thread is no member of the group any more (handleLostAll).

        Running ones are closed dirty, restoring ones clean; standbys are kept.
        """
        for task in self.tasks.owned():
            if task.active:
                self.tasks.remove(task)
                await self.close_dirty(task, "lost")
        failed: Errors = {}
        for task in self.tasks.take_pending(lambda task: task.active):
            await self._close_clean(task, failed)
        for task in self._updater.tasks():
            if task.active:
                removed = await self._updater.remove(task.id)
                if removed is not None and removed[1] is None:
                    await self._close_clean(removed[0], failed)
                elif removed is not None:
                    await self.close_dirty(removed[0], "lost")
        if self._exactly_once:
            await self._producer.renew()

    # Errors.

    async def on_corruption(self, corrupted: Iterable[TaskId]) -> bool:
        """Wipe and revive corrupted tasks; return whether an active one is among them.

        The clean tasks are committed first: afterwards an abort would take their work along.

        Raises:
            TaskMigrated: the thread is fenced.
        """
        found = [task for task_id in corrupted if (task := self.tasks.get(task_id)) is not None]
        standbys = [task for task in found if not task.active]
        active = [task for task in found if task.active]
        await self._close_and_revive(standbys, True)
        clean = [t for t in self.tasks.owned() if t.state is TaskState.RUNNING and t not in found]
        try:
            if not self.rebalancing:
                await self.executor.commit(clean, {})
        except TaskCorrupted as error:
            active += [t for t in clean if t.id in error.tasks]
        except KafkaTimeoutError:
            others: list[Task] = [t for t in self.tasks.active() if t not in active]
            await self._close_and_revive(others, False)
        await self._close_and_revive(active, True)
        return bool(active)

    async def _close_and_revive(self, tasks: Iterable[Task], corrupted: bool) -> None:
        for task in tasks:
            if task.state is not TaskState.CLOSED:
                if corrupted:
                    task.manager.mark_corrupted()
                await self._stop_dirty(task)
                if corrupted:
                    await task.post_commit(True)
                await self._close(task, "corrupted" if corrupted else "dirty")
            if isinstance(task, StreamTask):
                await task.reset_positions(await self._consumer.call("assignment"))
            self.tasks.remove(task)
            task.revive()
            self.tasks.add_pending([task])

    async def close_dirty(self, task: Task, reason: str) -> None:
        """Close a task whatever fails meanwhile."""
        if task.state is not TaskState.CLOSED:
            await self._stop_dirty(task)
            await self._close(task, reason)

    async def _stop_dirty(self, task: Task) -> None:
        try:
            await task.prepare_commit()
        except (StreamsError, KafkaError):
            pass  # Kafka logs it: only the caches were to be flushed
        await task.suspend("dirty")

    async def _close(self, task: Task, reason: str) -> None:
        try:
            await task.close(False, reason)
        except (StreamsError, KafkaError):
            if task.state is not TaskState.CLOSED:
                task.move(TaskState.CLOSED, reason)

    # The loop.

    async def check_state_updater(self) -> bool:
        """Give new tasks to the updater, and take restored ones; return whether all run.

        Raises:
            TaskCorrupted, StreamsError: tasks failed.
        """
        await self._initialize_pending()
        failed = {}
        for task, error in self._updater.take_failed():
            self.tasks.add_failed(task)
            failed[task.id] = error
        _raise_worst(failed)
        for restored in self._updater.take_restored():
            await self._begin_running(restored)
        return not self._updater.restores_active() and not self.tasks.has_pending()

    async def _initialize_pending(self) -> None:
        failed: Errors = {}
        for task in self.tasks.take_pending():
            attempts, not_before = self._lock_attempts.get(task.id, (0, 0))
            if wall_ms(self._port) < not_before:
                self.tasks.add_pending([task])
                continue
            try:
                await task.initialize()
            except DirectoryLocked:
                delay = min(LOCK_BACKOFF_MS << attempts, LOCK_BACKOFF_MAX_MS)
                self._lock_attempts[task.id] = (attempts + 1, wall_ms(self._port) + delay)
                self.tasks.add_pending([task])
            except KafkaTimeoutError as error:
                task.fail_after_timeout(wall_ms(self._port), error)
                self.tasks.add_pending([task])
            except (StreamsError, KafkaError) as error:
                self.tasks.add_failed(task)
                failed[task.id] = error
            else:
                self._lock_attempts.pop(task.id, None)
                self._updater.add(task)
        _raise_worst(failed)

    async def _begin_running(self, task: StreamTask) -> None:
        try:
            await task.complete_restoration()
        except KafkaTimeoutError as error:
            task.fail_after_timeout(wall_ms(self._port), error)
            self._updater.add(task)
            return
        self.tasks.add(task)
        task.made_progress()
        await self._consumer.call("resume", task.partitions)

    async def update_lags(self) -> None:
        """Let the tasks know how far brokers are ahead of the consumer.

        A task of one input partition waits for no other one, so it need not know.
        """
        waiting = [task for task in self.tasks.active() if len(task.partitions) > 1]
        if waiting:
            partitions = tuple([tp for task in waiting for tp in task.partitions])
            lags = await self._consumer.call("current_lag", partitions)
            for task in waiting:
                task.update_lags(lags)

    async def commit_all(self) -> int:
        """Commit all tasks of the thread; −1 during a rebalance.

        Raises:
            TaskMigrated, TaskCorrupted, StreamsError: the commit failed.
        """
        if self.rebalancing:
            return -1
        wanted = (TaskState.RUNNING, TaskState.RESTORING)
        tasks = [task for task in self.tasks.owned() if task.state in wanted]
        prepared: Prepared = {}
        try:
            return await self.executor.commit(tasks, prepared)
        except KafkaTimeoutError as error:
            for task in prepared:
                task.fail_after_timeout(wall_ms(self._port), error)
            return 0

    async def shutdown(self, clean: bool) -> None:
        """Close all tasks and the producer."""
        for task in self._updater.tasks():
            removed = await self._updater.remove(task.id)
            if removed is not None and removed[1] is None and self.tasks.get(task.id) is None:
                self.tasks.add(removed[0])
            elif removed is not None:
                await self.close_dirty(removed[0], "shutdown")
        await self._updater.stop()
        prepared: Prepared = {}
        failed = not clean
        if clean:
            try:
                for task in self.tasks.active():
                    await self.executor.prepare(task, prepared)
                await self.executor.commit_prepared(prepared)
            except (StreamsError, KafkaError):
                failed = True
        for task in self.tasks.owned():
            self.tasks.remove(task)
            if failed and task.active:
                await self.close_dirty(task, "shutdown")
                continue
            await task.post_commit(True)
            await self._close_clean(task, {})
        await self._producer.close()
        self.release_directories()


def _raise_worst(failed: Mapping[TaskId, Exception]) -> None:
    """Raise what follows from the errors of several tasks (maybeThrowTaskExceptions)."""
    if not failed:
        return
    corrupted = [task_id for task_id, each in failed.items() if isinstance(each, TaskCorrupted)]
    migrated = [each for each in failed.values() if isinstance(each, TaskMigrated)]
    handled = (TaskCorrupted, TaskMigrated)
    fatal = [each for each in failed.values() if not isinstance(each, handled)]
    if fatal:
        raise fatal[-1] if isinstance(fatal[-1], StreamsError) else StreamsError(str(fatal[-1]))
    if migrated:
        raise migrated[-1]
    raise TaskCorrupted(corrupted, "; ".join([str(failed[task_id]) for task_id in corrupted]))
