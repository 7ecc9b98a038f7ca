"""An instance of an application of Kafka Streams on a client host."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Awaitable, Coroutine
from dataclasses import dataclass
from signal import SIGTERM
from typing import Any

from kafkasim.analysis.judging.user_processors import load_processor
from kafkasim.model.config.streams import streams_settings
from kafkasim.model.facts import Processed, RecordDropped, TaskFlushed, TaskState, TaskTook
from kafkasim.model.facts.names import STREAMS
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.declared import topology_of
from kafkasim.model.streams.port import Promise
from kafkasim.model.streams.records import serialized
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.threads.instance import Environment, KafkaStreams
from kafkasim.model.streams.topology.topology import Subtopology
from kafkasim.scenarios.applications.session import Payload, Payloads
from kafkasim.scenarios.language.tables import StreamsTable
from kafkasim.scenarios.running.workloads import Control
from kafkasim.sim.apps.client_port import ClientPort


class Conversions:
    """What records carry: keys and values of all applications of a run, and their bytes.

    An input's value is its text, read as JSON if it is JSON; of a record that is only a size it is
    the record's id.
    """

    def __init__(self, payloads: Payloads) -> None:
        self.payloads = payloads
        self._keys: dict[tuple[str, bytes], Any] = {}  # of a topic: what its bytes stand for
        self._values: dict[int, Any] = {}  # by record id

    def key_out(self, topic: str, key: Any) -> str | bytes | None:
        """Return a key as a record of a topic carries it."""
        if key is None or isinstance(key, str):
            return key
        data = serialized(key)
        self._keys[topic, data] = key
        return data

    def key_in(self, topic: str, key: Any) -> Any:
        """Return the key that a record of a topic carries."""
        return self._keys.get((topic, key), key) if isinstance(key, bytes) else key

    def value_out(self, node: str, number: int, value: Any) -> tuple[int, int]:
        """Return the id of a new record of a host, and the bytes of its value."""
        data = None if value is None else serialized(value)
        record_id = self.payloads.new(node, number, Payload(data))
        self._values[record_id] = value
        return record_id, -1 if data is None else len(data)

    def value_in(self, record_id: int) -> Any:
        """Return the value of a record."""
        if record_id in self._values:
            return self._values[record_id]
        payload = self.payloads.written(record_id)
        value: Any = record_id
        if payload is not None:
            value = None if payload.value is None else _parsed(payload.value.decode())
        self._values[record_id] = value
        return value


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


class _Serdes:
    """The conversions of one host (model/streams/port.py:Serdes)."""

    def __init__(self, conversions: Conversions, node: str, number: int) -> None:
        self._conversions = conversions
        self._node = node
        self._number = STREAMS + number
        self.key_out = conversions.key_out
        self.key_in = conversions.key_in
        self.value_in = conversions.value_in

    def value_out(self, value: Any) -> tuple[int, int]:
        """Return (record id, bytes) of a value."""
        return self._conversions.value_out(self._node, self._number, value)


class StreamsPort:
    """An instance's access to its host (model/streams/port.py:Port).

    It tells the judges of groups, too, what a task has processed, or skipped as corrupt, when it
    commits.
    """

    def __init__(self, port: ClientPort, node: str, control: Control) -> None:
        self._port = port
        self._node = node
        self._control = control
        self._tasks: list[asyncio.Task[None]] = []  # asyncio keeps no reference to them
        self._taken: dict[str, dict[TopicPartition, tuple[int, int]]] = {}
        """By task and input: the first offset and the last that it took since its last commit"""
        self.call: Any = port.call
        self.call_acked: Any = port.call_acked

    def record(self, fact: Any) -> None:
        """Write a fact into the trace."""
        skipped = isinstance(fact, RecordDropped) and fact.reason == "deserialization"
        if skipped or isinstance(fact, TaskTook):
            tp = TopicPartition(fact.topic, fact.partition)
            taken = self._taken.setdefault(fact.task, {})
            first, last = taken.get(tp, (fact.offset, fact.offset))
            taken[tp] = (min(first, fact.offset), max(last, fact.offset))
        elif isinstance(fact, TaskFlushed):
            for tp, (first, last) in self._taken.pop(fact.task, {}).items():
                topic_id = self._control.topic_id_of(self._node, tp)
                told = Processed(fact.group, self._node, topic_id, tp.partition, first, last + 1)
                self._port.record(told)
        elif isinstance(fact, TaskState):
            self._taken.pop(fact.task, None)
        self._port.record(fact)

    @property
    def now_us(self) -> int:
        """The host's monotonic time in microseconds."""
        return self._port.now_us

    @property
    def wall_us(self) -> int:
        """The host's wall clock in microseconds."""
        return self._port.wall_us

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Sleep on the host's monotonic clock."""
        return asyncio.sleep(seconds)

    def promise(self) -> Promise:
        """Return a result that another coroutine will give."""
        return asyncio.get_running_loop().create_future()

    def spawn(self, steps: Coroutine[Any, Any, None], name: str) -> None:
        """Start another thread of the instance; what it raises ends the process."""
        task = asyncio.get_running_loop().create_task(steps, name=name)
        self._tasks.append(task)
        task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.remove(task)
        if not task.cancelled() and task.exception() is not None:
            task.result()  # raises in the loop


def _subtopologies(table: StreamsTable) -> tuple[Subtopology, ...]:
    return topology_of(table.topology, load=load_processor).subtopologies(table.application_id)


def inputs(table: StreamsTable) -> list[str]:
    """Return the topics that an application reads and does not create."""
    return [
        topic
        for each in _subtopologies(table)
        for topic in each.source_topics
        if topic not in each.repartition_topics
    ]


def internal_topics(table: StreamsTable) -> list[str]:
    """Return the topics that an application creates."""
    found = []
    for each in _subtopologies(table):
        logs = [
            topic for topic in each.changelog_topics.values() if topic not in each.source_topics
        ]
        found += [*each.repartition_topics, *logs]
    return found


@dataclass(frozen=True, kw_only=True)
class StreamsApplication:
    """One instance: runs until it is stopped, or an error ends it."""

    node: str
    number: int  # makes its record values unique
    table: StreamsTable
    conversions: Conversions
    rng: random.Random
    rules: StreamsRules
    control: Control

    async def __call__(self, port: ClientPort) -> None:
        """Run the threads of one incarnation; at the end the process exits."""
        table, rng = self.table, self.rng
        environment = Environment(
            port=StreamsPort(port, self.node, self.control),
            node=self.node,
            serdes=_Serdes(self.conversions, self.node, self.number),
            rng=rng,
            rules=self.rules,
            work=lambda: table.processing.draw(rng) / 1e6 if table.processing.high else 0.0,
            write_buffer_bytes=table.write_buffer,
            on_error=table.on_error,
        )
        topology = topology_of(table.topology, load=load_processor)
        instance = KafkaStreams(environment, streams_settings(table.properties), topology)
        port.catch_signal(SIGTERM, instance.stop)  # the shutdown hook calls close()
        await instance.run()
        if not port.stopping:
            self.control.returned[self.node] = None
        port.exit()
