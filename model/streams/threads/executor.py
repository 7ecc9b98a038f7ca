"""Processing and committing the tasks of a thread (TaskExecutor)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkasim.model.client.exceptions import CommitFailedError, KafkaError, KafkaTimeoutError
from kafkasim.model.streams.errors import StreamsError, TaskCorrupted, TaskMigrated
from kafkasim.model.streams.port import Client, Port, wall_ms
from kafkasim.model.streams.processors.context import StreamsFailure
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.tasks.producer import StreamsProducer
from kafkasim.model.streams.tasks.stream_task import StreamTask
from kafkasim.model.streams.tasks.task import Offsets, Task
from kafkasim.model.streams.threads.registry import Tasks

Prepared = dict[Task, Offsets]
"""By task, what it commits"""


class TaskExecutor:
    """Processes records of a thread's tasks in turn, and commits all of them together."""

    def __init__(
        self,
        port: Port,
        tasks: Tasks,
        consumer: Client,
        producer: StreamsProducer,
        rules: StreamsRules,
        work: Callable[[], float],
        *,
        exactly_once: bool,
    ) -> None:
        """``work()`` draws the seconds that processing the next record takes."""
        self._port = port
        self._tasks = tasks
        self._consumer = consumer
        self._producer = producer
        self._rules = rules
        self._work = work
        self._exactly_once = exactly_once

    async def process(self, limit: int) -> int:
        """Process up to ``limit`` records of each active task; return how many it were.

        Raises:
            StreamsError: a task failed, or its outputs.
        """
        total = 0
        for task in self._tasks.active():
            processed = 0
            try:
                while processed < limit and task.process(wall_ms(self._port)):
                    task.made_progress()
                    processed += 1
                    await self._producer.settle()
                    seconds = self._work()
                    if seconds:
                        await self._port.sleep(seconds)
            except StreamsFailure as error:
                raise StreamsError(f"task {task.id}: {error}") from error
            total += processed
        return total

    async def punctuate(self) -> int:
        """Fire the punctuators that are due; return how many kinds of them fired.

        Raises:
            StreamsError: a punctuator failed.
        """
        fired = 0
        for task in self._tasks.active():
            try:
                fired += task.punctuate(wall_ms(self._port))
            except StreamsFailure as error:
                raise StreamsError(f"task {task.id}: {error}") from error
        await self._producer.settle()
        return fired

    async def commit(self, tasks: Iterable[Task], prepared: Prepared) -> int:
        """Commit the tasks that need it; fill ``prepared``; return how many it were.

        Raises:
            TaskMigrated, TaskCorrupted, KafkaTimeoutError: see :meth:`commit_prepared`.
        """
        tasks = list(tasks)
        for task in tasks:
            if task.commit_needed:
                await self.prepare(task, prepared)
        await self.commit_prepared(prepared)
        committed = 0
        for task in tasks:
            if task.commit_needed:
                self.tell_without_offsets(task, prepared)
                task.made_progress()
                committed += 1
                await task.post_commit(False)
        return committed

    @staticmethod
    def tell_without_offsets(task: Task, prepared: Prepared) -> None:
        """Tell the trace that what a task without consumed inputs has written is committed."""
        if isinstance(task, StreamTask) and task not in prepared:
            task.on_committed({})

    async def prepare(self, task: Task, prepared: Prepared) -> None:
        """Prepare the commit of a task."""
        try:
            offsets = await task.prepare_commit()
        except StreamsFailure as error:
            raise StreamsError(f"task {task.id}: {error}") from error
        if offsets:
            prepared[task] = offsets

    async def commit_prepared(self, prepared: Prepared) -> None:
        """Commit the offsets of all tasks: with the consumer, or in a transaction.

        Raises:
            TaskMigrated: the thread is no member of the group any more, or is fenced.
            KafkaTimeoutError: at least once: no answer in time.
            TaskCorrupted: exactly once: no answer in time.
            StreamsError: any other error.
        """
        offsets = {tp: each for own in prepared.values() for tp, each in own.items()}
        if self._exactly_once:
            open_ = self._producer.in_transaction and self._rules.commits_open_transaction()
            if not offsets and not open_:
                return
            group = await self._consumer.call("group_metadata")
            try:
                await self._producer.commit(offsets, group)
            except KafkaTimeoutError as error:
                if prepared:
                    raise TaskCorrupted([task.id for task in prepared], str(error)) from error
                return
        elif offsets:
            await self._commit_sync(offsets)
        else:
            return
        for task, own in prepared.items():
            assert isinstance(task, StreamTask), task.id
            task.on_committed(own)

    async def _commit_sync(self, offsets: Offsets) -> None:
        try:
            await self._consumer.call("commit_sync", offsets)
        except CommitFailedError as error:
            raise TaskMigrated(f"committing offsets failed: {error}") from error
        except KafkaTimeoutError:
            raise
        except KafkaError as error:
            raise StreamsError(f"Error encountered committing offsets: {error}") from error
