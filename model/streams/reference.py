"""Run a topology without clients: one task over a given order of records, or all of it at once.

ReferenceTask says what a task must write if it takes these records in this order and nothing
fails. TestDriver models TopologyTestDriver (kafka-streams-test-utils): one task has the whole
topology, each record is processed at once, with all that follows from it, and then committed.
"""

from __future__ import annotations

from collections import deque
from typing import Any, NamedTuple

from kafkasim.model.streams.processors.context import Dropped
from kafkasim.model.streams.records import RecordContext, StreamRecord
from kafkasim.model.streams.stores.cache import ThreadCache
from kafkasim.model.streams.task import TaskTopology
from kafkasim.model.streams.topology.topology import Subtopology, Topology


class Output(NamedTuple):
    """A record that a task wrote to a topic."""

    topic: str
    key: Any
    value: Any
    timestamp: int


class Logged(NamedTuple):
    """A record that a task wrote to a store's changelog; None is the producer's time."""

    store: str
    key: Any
    value: Any
    timestamp: int | None


class DroppedRecord(NamedTuple):
    """A record that an operator (`node`) or a store (no node) dropped, or its part in a window."""

    node: str
    why: Dropped
    context: RecordContext | None
    window: tuple[int, int] | None


class ReferenceTask:
    """A task that takes records one by one; what it does is kept in lists."""

    def __init__(
        self,
        topology: Topology,
        subtopology: Subtopology,
        application_id: str,
        partition: int = 0,
        cache_bytes: int = 0,
        now_ms: int = 0,
    ) -> None:
        self.outputs: list[Output] = []
        self.changelog: list[Logged] = []
        self.dropped: list[DroppedRecord] = []
        self.now_ms = now_ms
        cache = ThreadCache(cache_bytes) if cache_bytes else None
        self.task = TaskTopology(topology, subtopology, application_id, partition, self, cache)
        self.task.init()

    def take(self, topic: str, partition: int, offset: int, record: StreamRecord) -> None:
        """Process a record, and fire the punctuators that stream time has reached."""
        self.task.process(topic, partition, offset, record)
        self.task.punctuate_stream_time()

    def commit(self) -> None:
        """Flush the caches."""
        self.task.flush_caches()

    def contents(self) -> dict[str, list[tuple[Any, Any]]]:
        """Return what each store holds, in its order."""
        return {name: store.all() for name, store in self.task.stores.items()}

    def send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """Keep what the task writes."""
        self.outputs.append(Output(topic, key, value, timestamp))

    def log_change(self, store: str, key: Any, value: Any, timestamp: int | None) -> None:
        """Keep what the task logs."""
        self.changelog.append(Logged(store, key, value, timestamp))

    def drop(
        self,
        node: str,
        why: Dropped,
        context: RecordContext | None,
        window: tuple[int, int] | None,
    ) -> None:
        """Keep what the task drops."""
        self.dropped.append(DroppedRecord(node, why, context, window))


class TestDriver:
    """The whole topology in one task of one partition (TopologyTestDriver)."""

    __test__ = False  # pytest: no test

    def __init__(
        self,
        topology: Topology,
        application_id: str = "app",
        cache_bytes: int = 10 * 1024 * 1024,
        now_ms: int = 0,
    ) -> None:
        """``cache_bytes`` is statestore.cache.max.bytes."""
        whole = topology.whole(application_id)
        self.reference = ReferenceTask(topology, whole, application_id, 0, cache_bytes, now_ms)
        self._offsets = dict.fromkeys(whole.source_topics, 0)
        self._queues: dict[str, deque[tuple[int, StreamRecord]]] = {}
        self._seen = 0  # outputs that were looked at

    @property
    def outputs(self) -> list[Output]:
        """What was written to all topics but changelogs."""
        return self.reference.outputs

    def pipe(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """Process a record and all that follows from it.

        Raises:
            ValueError: the topology does not read the topic.
            StreamsFailure: an operator failed.
        """
        if topic not in self._offsets:
            raise ValueError(f"Unknown topic: {topic}; allowed: {', '.join(self._offsets)}")
        self._enqueue(topic, StreamRecord(key, value, timestamp))
        self._complete()

    def advance_wall_clock(self, ms: int) -> None:
        """Let time pass, fire punctuators, commit."""
        self.reference.now_ms += ms
        self.reference.task.punctuate_wall_clock()
        self.reference.commit()
        self._reenqueue()
        self._complete()

    def _enqueue(self, topic: str, record: StreamRecord) -> None:
        self._queues.setdefault(topic, deque()).append((self._offsets[topic], record))
        self._offsets[topic] += 1

    def _complete(self) -> None:
        """Take the head with the least timestamp again and again (PartitionGroup)."""
        while self._queues:
            topic = min(self._queues, key=lambda each: self._queues[each][0][1].timestamp)
            queue = self._queues.pop(topic)
            offset, record = queue.popleft()
            if queue:
                self._queues[topic] = queue
            self.reference.take(topic, 0, offset, record)
            self.reference.commit()
            self._reenqueue()

    def _reenqueue(self) -> None:
        for output in self.reference.outputs[self._seen :]:
            if output.topic in self._offsets:
                self._enqueue(output.topic, StreamRecord(*output[1:]))
        self._seen = len(self.reference.outputs)
