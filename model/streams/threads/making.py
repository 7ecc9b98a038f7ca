"""Making the tasks of a thread, and turning one role into the other.

Models ActiveTaskCreator and StandbyTaskCreator.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafkasim.model.facts.streams import RecordDropped
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.port import Client, Port, Serdes, wall_ms
from kafkasim.model.streams.processors.context import Dropped
from kafkasim.model.streams.records import RecordContext
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.state.directory import StateDirectory
from kafkasim.model.streams.state.manager import StateManager
from kafkasim.model.streams.stores.cache import ThreadCache
from kafkasim.model.streams.task import TaskTopology
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.producer import RecordCollector, StreamsProducer
from kafkasim.model.streams.tasks.stream_task import StreamTask
from kafkasim.model.streams.tasks.task import StandbyTask, Task
from kafkasim.model.streams.topology import Subtopology, Topology


@dataclass(frozen=True, slots=True)
class Application:
    """What all threads of an instance share."""

    topology: Topology
    group: str  # application.id
    subtopologies: tuple[Subtopology, ...]
    exactly_once: bool
    max_task_idle_ms: int
    buffered_max: int
    skips_corrupt: bool
    task_timeout_ms: int
    write_buffer_bytes: int
    rules: StreamsRules
    join_clocks: dict[str, Any]  # for the rule shares_join_clock


class TaskHost:
    """What the processors of one task cause: records of its present collector."""

    def __init__(self, port: Port, group: str, task: TaskId, subtopology: Subtopology) -> None:
        self._port = port
        self._group = group
        self._task = str(task)
        self._changelogs = subtopology.changelog_topics
        self._sources = subtopology.source_topics
        self.collector: RecordCollector | None = None  # None of a standby
        self.manager: StateManager | None = None

    def send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """Write to a sink's topic."""
        assert self.collector is not None, topic
        self.collector.send(topic, key, value, timestamp)

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        return wall_ms(self._port)

    def log_change(self, store: str, key: Any, value: Any, timestamp: int | None) -> None:
        """Write to a store, and to its changelog unless that is the source topic itself."""
        assert self.collector is not None, store
        assert self.manager is not None, store
        at = wall_ms(self._port) if timestamp is None else timestamp
        self.manager.wrote(store, key, value, at)
        topic = self._changelogs.get(store)
        if topic is not None and topic not in self._sources:
            self.collector.log(topic, key, value, timestamp)

    def drop(
        self, node: str, why: Dropped, context: RecordContext | None, window: tuple[int, int] | None
    ) -> None:
        """Tell that a record was dropped."""
        assert context is not None, node
        told = RecordDropped(
            self._group, self._task, node, why.value, context.topic or "", context.partition,
            context.offset,
        )  # fmt: skip
        self._port.record(told)


class TaskMaker:
    """Makes the tasks of one thread."""

    def __init__(
        self,
        application: Application,
        port: Port,
        directory: StateDirectory,
        producer: StreamsProducer,
        consumer: Client,
        serdes: Serdes,
        cache: ThreadCache | None,
        thread: int,
    ) -> None:
        self._application = application
        self.port = port
        self.group = application.group
        self.thread = thread
        self._directory = directory
        self._producer = producer
        self._consumer = consumer
        self._serdes = serdes
        self._cache = cache

    def active(self, task_id: TaskId, partitions: Iterable[TopicPartition]) -> StreamTask:
        """Return a new active task."""
        manager, topology, host = self._state(task_id)
        return self._active(task_id, partitions, topology, manager, host)

    def standby(self, task_id: TaskId, partitions: Iterable[TopicPartition]) -> StandbyTask:
        """Return a new standby task."""
        manager, topology, _ = self._state(task_id)
        return self._standby(task_id, partitions, topology, manager)

    async def recycled(self, task: Task) -> Task:
        """Return a task in the other role, with the stores of this one.

        Raises:
            TaskMigrated: the task has uncommitted work.
        """
        await task.recycle()
        manager, topology = task.manager, task.topology
        host = topology.port
        assert isinstance(host, TaskHost), host
        if task.active:
            return self._standby(task.id, task.partitions, topology, manager)
        return self._active(task.id, task.partitions, topology, manager, host)

    def _state(self, task_id: TaskId) -> tuple[StateManager, TaskTopology, TaskHost]:
        application = self._application
        subtopology = application.subtopologies[task_id.subtopology]
        manager = StateManager(
            task_id, f"thread-{self.thread}", self._directory, subtopology.changelog_topics,
            exactly_once=application.exactly_once,
            write_buffer_bytes=application.write_buffer_bytes, rules=application.rules,
        )  # fmt: skip
        host = TaskHost(self.port, application.group, task_id, subtopology)
        host.manager = manager
        topology = TaskTopology(
            application.topology, subtopology, application.group, task_id.partition, host,
            self._cache, application.rules,
        )  # fmt: skip
        if application.rules.shares_join_clock():
            topology.shared = application.join_clocks
        return manager, topology, host

    def _active(
        self,
        task_id: TaskId,
        partitions: Iterable[TopicPartition],
        topology: TaskTopology,
        manager: StateManager,
        host: TaskHost,
    ) -> StreamTask:
        application = self._application
        host.collector = collector = RecordCollector(
            task_id, application.group, self.port, self._producer, self._serdes,
            exactly_once=application.exactly_once,
        )  # fmt: skip
        return StreamTask(
            task_id, partitions, topology, manager, self, application.task_timeout_ms,
            collector=collector, consumer=self._consumer, serdes=self._serdes,
            exactly_once=application.exactly_once,
            max_task_idle_ms=application.max_task_idle_ms,
            buffered_max=application.buffered_max, skips_corrupt=application.skips_corrupt,
            rules=application.rules,
        )  # fmt: skip

    def _standby(
        self,
        task_id: TaskId,
        partitions: Iterable[TopicPartition],
        topology: TaskTopology,
        manager: StateManager,
    ) -> StandbyTask:
        timeout_ms = self._application.task_timeout_ms
        return StandbyTask(task_id, partitions, topology, manager, self, timeout_ms)
