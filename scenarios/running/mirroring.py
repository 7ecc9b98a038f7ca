"""MirrorMaker 2's tasks: what a dedicated node of one flow does, as loops over its clients.

Each loop is a thread of the node's process. Records of internal topics carry an id; what they say
is in :class:`Contents`. A node without a group runs every task itself; those of a group are run by
``herding.py``. Left out: the source offsets of heartbeats (they are always 0).
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from signal import SIGTERM
from typing import Any, NamedTuple, Protocol

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.connect.config import FLUSH_MS, GRACEFUL_MS, MirrorConfig
from kafkasim.model.connect.offset_syncs import OffsetSync, OffsetSyncWriter
from kafkasim.model.connect.policies import HEARTBEATS
from kafkasim.model.connect.rules import MirrorRules
from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.model.errors import Errors
from kafkasim.model.facts import OffsetSynced
from kafkasim.model.facts.names import MIRRORS
from kafkasim.model.messages import CreatableTopic
from kafkasim.model.records import TopicPartition
from kafkasim.sim.apps.client_port import ClientPort

POLL_MS = 1000
"""The default of consumer.poll.timeout.ms."""

RETRY_S = 1.0
"""How long a loop waits after an error of its clients."""

SIZE = 100
"""Bytes of a mirrored record, and of one of an internal topic."""


Submitted = deque[list[int]]
"""[offset, whether it is acknowledged] of a partition's records, in the order of the sends."""


@dataclass
class Contents:
    """What the records of one mirror's internal topics say, by record id; it outlives restarts."""

    number: int  # of the mirror
    said: dict[int, Any] = field(default_factory=dict)
    numbers: count[int] = field(default_factory=count)
    # SubmittedRecords of the task that copies a source partition, or copied it last.
    submitted: dict[TopicPartition, Submitted] = field(default_factory=dict)

    def in_flight(self, tp: TopicPartition) -> int:
        """Return how many records of a source partition the target has not acknowledged."""
        return sum(not acknowledged for _, acknowledged in self.submitted.get(tp, ()))

    def write(self, what: Any) -> int:
        """Return the id of a new record that says something."""
        record_id = (MIRRORS + self.number) << 32 | next(self.numbers)
        self.said[record_id] = what
        return record_id


@dataclass(frozen=True, kw_only=True)
class Flow:
    """One flow from a source cluster to a target cluster."""

    source: str
    target: str
    config: MirrorConfig
    clients: Mapping[str, Mapping[str, Any]]  # what they are told, by what is in front of it
    rules: MirrorRules
    contents: Contents
    worker_rules: WorkerRules = field(default_factory=WorkerRules)
    emits_back: bool  # whether its node emits the heartbeats of B→A, too: no other mirror does

    def remote(self, tp: TopicPartition) -> TopicPartition:
        """Return the partition of the target that a partition is mirrored to."""
        return TopicPartition(self.remote_topic(tp.topic), tp.partition)

    def remote_topic(self, topic: str) -> str:
        """Return the name of a topic in the target."""
        return self.config.policy.remote_topic(self.source, topic)

    def takes(self, topic: str) -> bool:
        """Return whether a topic of the source is mirrored."""
        return self.config.takes_topic(self.target, topic, self.rules)

    @property
    def syncs_side(self) -> str:
        """Where the topic of the offset syncs is: ``source`` or ``target``."""
        return self.config.offset_syncs_topic_location

    @property
    def syncs_topic(self) -> str:
        """The topic of the offset syncs."""
        other = self.target if self.syncs_side == "source" else self.source
        return self.config.policy.offset_syncs_topic(other)

    @property
    def checkpoints_topic(self) -> str:
        """The topic of the checkpoints, in the target cluster."""
        return self.config.policy.checkpoints_topic(self.source)

    @property
    def offsets_topic(self) -> str:
        """Connect's topic of source offsets, in the target cluster."""
        return f"mm2-offsets.{self.source}.internal"

    @property
    def configs_topic(self) -> str:
        """Connect's topic of connectors and tasks, in the target cluster."""
        return f"mm2-configs.{self.source}.internal"

    @property
    def group_id(self) -> str:
        """The group of the flow's workers, in the target cluster (MirrorMakerConfig)."""
        return f"{self.source}-mm2"


async def again(step: Callable[[], Awaitable[Any]]) -> Any:
    """Return what a step returns, tried until its clients raise no error."""
    while True:
        try:
            return await step()
        except KafkaError:
            await asyncio.sleep(RETRY_S)


async def every(seconds: float, step: Callable[[], Awaitable[Any]], *, first: bool) -> None:
    """Take a step again and again, ``seconds`` apart, whatever comes of it (Scheduler).

    ``first``: also at once.
    """
    if not first:
        await asyncio.sleep(seconds)
    while True:
        await attempt(step)
        await asyncio.sleep(seconds)


async def attempt(step: Callable[[], Awaitable[Any]]) -> None:
    """Take a step; an error of its clients is logged."""
    try:
        await step()
    except KafkaError:
        pass


async def create(port: ClientPort, admin: str, *topics: CreatableTopic) -> None:
    """Create topics; one that exists is no error."""

    async def step() -> None:
        for topic, error, message in await port.call(f"{admin}.create_topics", topics):
            if error not in (Errors.NONE, Errors.TOPIC_ALREADY_EXISTS):
                raise KafkaError(error.name, f"{topic}: {message}")

    await again(step)


def internal_topic(name: str, replication_factor: int) -> CreatableTopic:
    """Return a compacted topic of one partition (createSinglePartitionCompactedTopic)."""
    return CreatableTopic(name, 1, replication_factor, (), (("cleanup.policy", "compact"),))


async def poll(port: ClientPort, consumer: str) -> dict[TopicPartition, Any]:
    """Poll once; a consumer without a group has no rebalance to tell of."""
    _, records = await port.call(f"{consumer}.poll", POLL_MS)
    return dict(records)


async def read_to_end(
    port: ClientPort, consumer: str, topic: str, take: Callable[[int], None]
) -> None:
    """Read a topic of one partition up to its present end (KafkaBasedLog.start)."""
    tp = TopicPartition(topic, 0)
    await port.call(f"{consumer}.assign", (tp,))
    ends = await again(lambda: port.call(f"{consumer}.end_offsets", (tp,)))
    while (await port.call(f"{consumer}.position", tp) or 0) < ends[tp]:
        for batch in (await again(lambda: poll(port, consumer))).values():
            for record in batch:
                take(record[1])


class MirroredTopics(Protocol):
    """What a source task copies."""

    partitions: tuple[TopicPartition, ...]  # in the source

    async def refresh(self) -> None:
        """Find the topics; create in the target what it has not got."""

    async def run(self) -> None:
        """Keep them up to date for ever."""


SOURCE_TASK_CLIENTS = ("source", "producer", "syncs-producer", "offsets")
PRODUCERS = ("producer", "syncs-producer")


class SourceTask:
    """Copies records (MirrorSourceTask in a WorkerSourceTask, at least once)."""

    def __init__(
        self, port: ClientPort, flow: Flow, topics: MirroredTopics, suffix: str = ""
    ) -> None:
        """``suffix`` is behind the names of the task's clients."""
        self._source, self._producer, self._syncs, self._offsets = (
            name + suffix for name in SOURCE_TASK_CLIENTS
        )
        self._stopping = False
        self._stopped = asyncio.Event()
        self._port = port
        self._flow = flow
        self._topics = topics
        self._lag_max = flow.config.offset_lag_max
        self._writer = OffsetSyncWriter(flow.rules, self._lag_max)
        self._stored: dict[TopicPartition, int] = {}  # source offsets, as Connect has stored them
        self._submitted: dict[TopicPartition, Submitted] = {}
        self._committable: dict[TopicPartition, int] = {}

    async def run(self) -> None:
        """Mirror for ever."""
        flow, port = self._flow, self._port
        await read_to_end(port, self._offsets, flow.offsets_topic, self._load)
        await again(self._topics.refresh)
        flush_s = flow.config.offset_flush_interval_ms / 1000
        await asyncio.gather(
            self._copy(),
            every(flush_s, self._flush, first=False),
            self._topics.run(),
        )

    async def finish(self) -> None:
        """Stop copying; wait for what is on its way, and commit its source offsets.

        (AbstractWorkerSourceTask.close, WorkerSourceTask.finalOffsetCommit)
        """
        self._stopping = True
        await self._port.call(f"{self._source}.wakeup")
        await self._stopped.wait()
        await self._settle()
        await self._flush()

    def _load(self, record_id: int) -> None:
        tp, offset = self._flow.contents.said[record_id]
        self._stored[tp] = offset

    async def _copy(self) -> None:
        assigned: tuple[TopicPartition, ...] = ()
        while not self._stopping:
            if self._topics.partitions != assigned:
                if assigned:  # Connect ends the task, and starts one with the new partitions
                    await self._settle()
                    await self._flush()
                    self._writer = OffsetSyncWriter(self._flow.rules, self._lag_max)
                assigned = self._topics.partitions
                await self._assign(assigned)
            if not assigned:
                await asyncio.sleep(POLL_MS / 1000)
                continue
            try:
                records = await poll(self._port, self._source)
            except KafkaError:
                continue
            for tp, batch in records.items():
                for offset, value, key, timestamp in batch:
                    await self._send(tp, offset, value, key, timestamp)
            await self._batch_dispatched()
        self._stopped.set()

    async def _batch_dispatched(self) -> None:
        """Do what follows on the records of a poll(): here nothing."""

    async def _settle(self) -> None:
        """Wait for acknowledgements, as a task that ends (SubmittedRecords.awaitAllMessages)."""
        until_us = self._port.now_us + FLUSH_MS * 1000
        while any(self._submitted.values()) and self._port.now_us < until_us:
            await asyncio.sleep(0.01)

    async def _all_acknowledged(self) -> bool:
        """Wait for all that is on its way now; return False after offset.flush.timeout.ms."""
        sent = [entry for submitted in self._submitted.values() for entry in submitted]
        until_us = self._port.now_us + FLUSH_MS * 1000
        while not all(acknowledged for _, acknowledged in sent):
            if self._port.now_us >= until_us:
                return False
            await asyncio.sleep(0.01)
        return True

    async def _assign(self, partitions: tuple[TopicPartition, ...]) -> None:
        """Begin behind the stored offsets; without one, where auto.offset.reset says: earliest."""
        await self._port.call(f"{self._source}.assign", partitions)
        for tp in partitions:
            self._flow.contents.submitted[tp] = self._submitted.setdefault(tp, deque())
            last = self._committable.get(tp, self._stored.get(tp, -1))
            if last >= 0:
                await self._port.call(f"{self._source}.seek", tp, last + 1)

    async def _send(
        self, tp: TopicPartition, offset: int, value: Any, key: Any, timestamp: int
    ) -> None:
        remote = self._flow.remote(tp)
        entry = [offset, 0]
        self._submitted[tp].append(entry)
        taken, done = self._port.call_acked(
            f"{self._producer}.send",
            remote.topic, key, value, SIZE, remote.partition, True, 0, timestamp,
        )  # fmt: skip
        done.add_done_callback(lambda answer: self._on_answer(tp, entry, answer))
        await taken

    def _on_answer(self, tp: TopicPartition, entry: list[int], answer: asyncio.Future[Any]) -> None:
        """Take an acknowledgement (commitRecord); a task whose send fails for good ends."""
        if answer.cancelled() or answer.exception() is not None:
            return
        entry[1] = 1
        submitted = self._submitted[tp]
        while submitted and submitted[0][1]:
            self._committable[tp] = submitted.popleft()[0]
        _, down, *_ = answer.result()
        if down >= 0:  # with acks=0 nobody knows (RecordMetadata.hasOffset)
            self._acknowledged(OffsetSync(tp, entry[0], down))

    def _acknowledged(self, sync: OffsetSync) -> None:
        """Write an offset sync for a copied record, if one is due."""
        self._writer.acknowledged(sync)
        self._fire()

    def _fire(self) -> None:
        for sync in self._writer.take():
            record = self._flow.contents.write(sync)
            self._port.record(OffsetSynced(*sync.tp, sync.up, sync.down))
            key = f"{sync.tp.topic}-{sync.tp.partition}"
            _, done = self._port.call_acked(
                f"{self._syncs}.send", self._flow.syncs_topic, key, record, SIZE, 0, True
            )
            done.add_done_callback(partial(self._on_synced, self._writer))

    def _on_synced(self, writer: OffsetSyncWriter, answer: asyncio.Future[Any]) -> None:
        writer.answered()
        if not answer.cancelled():
            answer.exception()  # logged; the next sync of the partition says more

    async def _flush(self) -> None:
        """Commit the source offsets, and let delayed syncs go (SourceTaskOffsetCommitter)."""
        self._writer.promote()
        self._fire()
        rules = self._flow.worker_rules
        if not rules.commits_each_partition() and not await self._all_acknowledged():
            return
        for tp, offset in self._committable.items():
            if self._stored.get(tp) != offset:
                self._stored[tp] = offset
                record, key = self._flow.contents.write((tp, offset)), f"{tp.topic}-{tp.partition}"
                await self._port.call(
                    f"{self._producer}.send", self._flow.offsets_topic, key, record, SIZE, 0, False
                )


class Heartbeat(NamedTuple):
    """The flow between two clusters was alive at a time of the emitter's wall clock, in ms."""

    source: str
    target: str
    timestamp: int


async def heartbeats(port: ClientPort, flow: Flow, side: str) -> None:
    """Emit heartbeats into a cluster (MirrorHeartbeatConnector, MirrorHeartbeatTask).

    ``side`` is ``target``, or ``source`` for those of the opposite flow. One in A is mirrored to B
    as ``A.heartbeats``: its age there is the latency of the flow A→B.
    """
    config, pair = flow.config, (flow.source, flow.target)
    source, target = pair if side == "target" else reversed(pair)

    async def emit() -> None:
        beat = flow.contents.write(Heartbeat(source, target, port.wall_us // 1000))
        key = f"{source}-{target}"
        await port.call(f"{side}-heartbeats.send", HEARTBEATS, key, beat, SIZE, 0, False)

    await create_heartbeats_topic(port, flow, side)
    if config.emit_heartbeats_enabled:
        await every(config.emit_heartbeats_interval_seconds, emit, first=False)


async def create_heartbeats_topic(port: ClientPort, flow: Flow, side: str) -> None:
    """Create the topic of heartbeats in a cluster, also if none are emitted (createInternalTopics).

    ``side`` is ``target`` or ``source``.
    """
    factor = flow.config.heartbeats_topic_replication_factor
    await create(port, f"{side}-admin", internal_topic(HEARTBEATS, factor))


@dataclass(frozen=True, kw_only=True)
class MirrorApplication:
    """All tasks of a flow, on one node."""

    flow: Flow
    topics: Callable[[ClientPort, Flow], MirroredTopics]
    checkpoints: Callable[[ClientPort, Flow], Awaitable[None]]

    def __call__(self, port: ClientPort) -> Coroutine[Any, Any, None]:
        """Return what one incarnation of the node does."""
        return self._run(port)

    async def _run(self, port: ClientPort) -> None:
        flow, config = self.flow, self.flow.config
        factors = (
            config.offset_storage_replication_factor,
            config.checkpoints_topic_replication_factor,
        )
        await create(
            port, "target-admin",
            internal_topic(flow.offsets_topic, factors[0]),
            internal_topic(flow.checkpoints_topic, factors[1]),
        )  # fmt: skip
        syncs = internal_topic(flow.syncs_topic, config.offset_syncs_topic_replication_factor)
        await create(port, f"{flow.syncs_side}-admin", syncs)
        source = SourceTask(port, flow, self.topics(port, flow))
        tasks: list[Awaitable[None]] = [source.run()]
        if config.emit_checkpoints_enabled:
            tasks.append(self.checkpoints(port, flow))
        sides = ("target", "source") if flow.emits_back else ("target",)
        tasks += [heartbeats(port, flow, side) for side in sides]
        await _until_stopped(port, source, asyncio.gather(*tasks))


async def _until_stopped(port: ClientPort, source: SourceTask, running: Awaitable[Any]) -> None:
    """Run until the process is asked to stop; then commit source offsets, and end it."""
    asked = asyncio.Event()
    port.catch_signal(SIGTERM, asked.set)
    ends = [asyncio.ensure_future(running), asyncio.create_task(asked.wait())]
    done, _ = await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    for each in done:
        each.result()  # raises what the tasks have raised
    with contextlib.suppress(TimeoutError, KafkaError):
        async with asyncio.timeout(GRACEFUL_MS / 1000):
            await source.finish()
            await asyncio.gather(*[port.call(f"{name}.flush") for name in PRODUCERS])
    ends[0].cancel()
    port.exit()
