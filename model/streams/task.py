"""A subtopology in one task: its processors and stores, from a record to what it causes.

Models the parts of StreamTask, ProcessorTopology, ProcessorContextImpl and ProcessorStateManager
that need neither clients nor disks. The runtime decides which record comes next, when punctuators
are asked, when the task commits, and what becomes of writes. Left out: headers, forwarding from
standby tasks (they have no processors), global stores.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.streams.processors.context import (
    Cancellable,
    Context,
    Dropped,
    Processor,
    PunctuationType,
    Punctuator,
    StreamsFailure,
)
from kafkasim.model.streams.processors.rules import OperatorRules
from kafkasim.model.streams.punctuation import PunctuationQueue
from kafkasim.model.streams.records import UNKNOWN, RecordContext, StreamRecord
from kafkasim.model.streams.stores.base import Store
from kafkasim.model.streams.stores.cache import Cached, ThreadCache
from kafkasim.model.streams.stores.making import make_store
from kafkasim.model.streams.stores.suppression import SuppressionBuffer
from kafkasim.model.streams.topology.nodes import Deserializer, ProcessorNode, SinkNode, SourceNode
from kafkasim.model.streams.topology.topology import Subtopology, Topology


class Port(Protocol):
    """What a task knows of the clock and may cause (RecordCollector, metrics)."""

    @property
    def now_ms(self) -> int:
        """The wall clock."""
        ...

    def send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """Write to a sink's or repartition topic; ``base_key(key)`` chooses the partition."""
        ...

    def log_change(self, store: str, key: Any, value: Any, timestamp: int | None) -> None:
        """Write to a store's changelog; None is the producer's time, a value of None deletes."""
        ...

    def drop(
        self, node: str, why: Dropped, context: RecordContext | None, window: tuple[int, int] | None
    ) -> None:
        """Count a record that an operator or a store dropped; ``window`` is the one it is late
        for."""
        ...


class TaskTopology:
    """The processors and stores of one task.

    ``stores`` has what is durable, by name, and what the runtime restores into. Call ``init`` once
    they are restored, then ``process`` and the punctuators in any order, ``flush_caches`` before
    each commit, ``close`` at the end.
    """

    def __init__(
        self,
        topology: Topology,
        subtopology: Subtopology,
        application_id: str,
        partition: int,
        port: Port,
        cache: ThreadCache | None,
        rules: OperatorRules | None = None,
    ) -> None:
        """``cache`` is the thread's; None stands for statestore.cache.max.bytes = 0."""
        self.rules = rules or OperatorRules()
        self.id = f"{subtopology.id}_{partition}"
        self.record_context: RecordContext | None = None
        self.stream_time_ms = UNKNOWN  # largest timestamp taken; set it to what was committed
        self.now_ms = 0
        self.metadata: dict[str, int] = {}  # to be committed with the offsets (KAFKA-13785)
        self.stores: dict[str, Store] = {}
        self.shared: dict[str, Any] = {}
        self.port = port
        self.stream_time_punctuators = PunctuationQueue()
        self.wall_clock_punctuators = PunctuationQueue()
        self._visible: dict[str, Any] = {}
        for spec in subtopology.stores:
            self.stores[spec.name], self._visible[spec.name] = make_store(spec, self, cache)
        self._contexts = self._build(topology, subtopology, application_id)

    def init(self) -> None:
        """Begin: every processor sees its context and may schedule punctuators."""
        self.now_ms = self.port.now_ms
        for context in self._contexts.values():
            context.processor.init(context)

    def process(self, topic: str, partition: int, offset: int, record: StreamRecord) -> None:
        """Process one record of a source topic.

        Raises:
            StreamsFailure: an operator stops the application.
        """
        self.stream_time_ms = max(self.stream_time_ms, record.timestamp)
        self.now_ms = self.port.now_ms
        self.record_context = RecordContext(topic, partition, offset, record.timestamp)
        try:
            self._sources[topic].forward(record)
        finally:
            self.record_context = None

    def source(self, topic: str) -> str:
        """Return the name of the node that reads a topic."""
        return self._sources[topic].node

    def deserialized(self, topic: str, value: Any) -> Any:
        """Return the value of a source topic's record; a deletion stays one.

        Raises:
            StreamsFailure: it cannot be deserialized.
        """
        deserializer = self._deserializers.get(topic)
        return value if deserializer is None or value is None else deserializer(value)

    def punctuate_stream_time(self) -> bool:
        """Fire the punctuators that stream time has reached; return whether any did."""
        if self.stream_time_ms == UNKNOWN:
            return False
        return self._punctuate(self.stream_time_punctuators, self.stream_time_ms)

    def punctuate_wall_clock(self) -> bool:
        """Fire the punctuators that are due by the wall clock; return whether any did."""
        self.now_ms = self.port.now_ms
        return self._punctuate(self.wall_clock_punctuators, self.now_ms)

    def flush_caches(self) -> None:
        """Let cached updates go downstream and to the changelogs: the task is to commit."""
        for name, visible in self._visible.items():
            if isinstance(visible, Cached | SuppressionBuffer):
                visible.flush()
                assert self.record_context is None, name

    def clear_caches(self) -> None:
        """Forget what is cached: the task was recycled, or is closed dirty."""
        for visible in self._visible.values():
            if isinstance(visible, Cached):
                visible.clear_cache()

    def close(self) -> None:
        """Close the processors."""
        for context in self._contexts.values():
            context.processor.close()

    def set_record_context(self, context: RecordContext | None) -> None:
        """Let another input record be the one that is processed."""
        self.record_context = context

    def log(self, store: str, key: Any, value: Any, timestamp: int | None) -> None:
        """Write to a store's changelog."""
        self.port.log_change(store, key, value, timestamp)

    def expired(self) -> None:
        """Report a write that a store refused."""
        self.port.drop("", Dropped.EXPIRED_SEGMENT, self.record_context, None)

    def visible(self, store: str) -> Any:
        """Return what processors see of a store: it, or its cache over it."""
        return self._visible[store]

    def _punctuate(self, queue: PunctuationQueue, now_ms: int) -> bool:
        self.record_context = RecordContext(None, -1, -1, now_ms)
        try:
            return queue.punctuate(now_ms)
        finally:
            self.record_context = None

    def _build(
        self, topology: Topology, subtopology: Subtopology, application_id: str
    ) -> dict[str, NodeContext]:
        contexts: dict[str, NodeContext] = {}
        self._sources: dict[str, NodeContext] = {}
        self._deserializers: dict[str, Deserializer] = {}
        internal = topology.internal_topics
        for name in subtopology.nodes:
            node = topology.nodes[name]
            processor: Processor = SourceProcessor()
            stores: list[str] = []
            if isinstance(node, ProcessorNode):
                processor, stores = node.supplier(), node.stores
            elif isinstance(node, SinkNode):
                named = f"{application_id}-{node.topic}" if node.topic in internal else node.topic
                processor = SinkProcessor(named, self.port)
            contexts[name] = context = NodeContext(self, name, processor, tuple(stores))
            for parent in node.parents:
                contexts[parent].children[name] = processor
            if isinstance(node, SourceNode):
                for topic in node.topics:
                    named = f"{application_id}-{topic}" if topic in internal else topic
                    self._sources[named] = context
                    if node.deserializer is not None:
                        self._deserializers[named] = node.deserializer
        return contexts


class NodeContext(Context):
    """The context of one node's processor."""

    def __init__(
        self, task: TaskTopology, node: str, processor: Processor, stores: tuple[str, ...]
    ) -> None:
        self.processor = processor
        self.children: dict[str, Processor] = {}
        self._task, self._node, self._stores = task, node, stores

    @property
    def task_id(self) -> str:
        """The task."""
        return self._task.id

    @property
    def node(self) -> str:
        """The name of the node."""
        return self._node

    @property
    def rules(self) -> OperatorRules:
        """The rules of operators."""
        return self._task.rules

    @property
    def record_context(self) -> RecordContext | None:
        """The input record that is being processed."""
        return self._task.record_context

    @property
    def stream_time_ms(self) -> int:
        """The stream time of the task."""
        return self._task.stream_time_ms

    @property
    def now_ms(self) -> int:
        """The wall clock when the task began to process the record."""
        return self._task.now_ms

    def forward(self, record: StreamRecord, child: str | None = None) -> None:
        """Hand a record to all children in order, or to one; its timestamp is the context's."""
        task = self._task
        before = task.record_context
        if before is not None and before.timestamp != record.timestamp:
            task.record_context = before._replace(timestamp=record.timestamp)
        try:
            if child is None:
                for processor in self.children.values():
                    processor.process(record)
            elif child in self.children:
                self.children[child].process(record)
            else:
                raise StreamsFailure(
                    f"Unknown downstream node: {child} either does not exist or is not connected "
                    f"to this processor; allowed: {', '.join(self.children)}"
                )
        finally:
            task.record_context = before

    def at(self, context: RecordContext | None, record: StreamRecord) -> None:
        """Forward a record as part of an earlier input record."""
        before = self._task.record_context
        self._task.record_context = context
        try:
            self.forward(record)
        finally:
            self._task.record_context = before

    def store(self, name: str) -> Any:
        """Return a connected store."""
        if name not in self._stores:
            raise StreamsFailure(
                f"Processor {self._node} has no access to StateStore {name} as the store is not "
                f"connected to the processor"
            )
        return self._task.visible(name)

    def schedule(
        self, interval_ms: int, kind: PunctuationType, callback: Punctuator
    ) -> Cancellable:
        """Schedule a punctuator: by stream time from 0, by the clock after one interval."""
        if interval_ms < 1:
            raise StreamsFailure("The minimum supported scheduling interval is 1 millisecond.")
        if kind is PunctuationType.STREAM_TIME:
            return self._task.stream_time_punctuators.add(0, interval_ms, callback)
        first_ms = self._task.now_ms + interval_ms
        return self._task.wall_clock_punctuators.add(first_ms, interval_ms, callback)

    def drop(self, why: Dropped, window: tuple[int, int] | None = None) -> None:
        """Report a dropped record."""
        self._task.port.drop(self._node, why, self._task.record_context, window)

    def metadata(self, key: str) -> int | None:
        """Return what was kept with the committed offsets."""
        return self._task.metadata.get(key)

    def keep_metadata(self, key: str, value: int) -> None:
        """Keep a number with the next committed offsets."""
        self._task.metadata[key] = value

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """Return an object that the task's processors share."""
        if key not in self._task.shared:
            self._task.shared[key] = make()
        return self._task.shared[key]


class SourceProcessor(Processor):
    """A source; the task forwards from its context."""


class SinkProcessor(Processor):
    """Writes each record to a topic."""

    def __init__(self, topic: str, port: Port) -> None:
        self._topic, self._port = topic, port

    def process(self, record: StreamRecord) -> None:
        """Send the record with its timestamp.

        Raises:
            StreamsFailure: the timestamp is negative.
        """
        if record.timestamp < 0:
            raise StreamsFailure(
                f"Invalid (negative) timestamp of {record.timestamp} for output record"
            )
        self._port.send(self._topic, record.key, record.value, record.timestamp)
