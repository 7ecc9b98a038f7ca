"""An active task: queues, processing, punctuation, and what it commits (StreamTask)."""

from __future__ import annotations

import base64
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from zlib import crc32

from kafkasim.model.facts import streams as facts
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.errors import StreamsError, TaskMigrated
from kafkasim.model.streams.port import Client, Serdes
from kafkasim.model.streams.processors.context import Dropped, StreamsFailure
from kafkasim.model.streams.records import UNKNOWN, RecordContext, StreamRecord, serialized
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.state.manager import StateManager
from kafkasim.model.streams.states import TaskState
from kafkasim.model.streams.task import TaskTopology
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.partition_group import Head, PartitionGroup, Queued
from kafkasim.model.streams.tasks.producer import RecordCollector
from kafkasim.model.streams.tasks.task import Offsets, Task, TaskFacts
from kafkasim.model.streams.told import told
from kafkasim.model.streams.topology import StoreKind

METADATA_VERSION = 2

Position = Callable[[TopicPartition], Any]


def digest(entries: Iterable[tuple[Any, Any]]) -> int:
    """Return the CRC-32 of a store's entries in their order."""
    crc = 0
    for key, value in entries:
        crc = crc32(serialized(value), crc32(serialized(key), crc))
    return crc


def encode_metadata(partition_time: int, processor: Mapping[str, int]) -> str:
    """Return the metadata of a committed offset (TopicPartitionMetadata.encode).

    The processors' metadata is JSON here.
    """
    head = struct.pack(">bq", METADATA_VERSION, partition_time)
    return base64.b64encode(head + json.dumps(dict(processor)).encode()).decode()


def decode_metadata(text: str) -> tuple[int, dict[str, int]]:
    """Return (partition time, processors' metadata); (−1, {}) of an offset without metadata."""
    if not text:
        return UNKNOWN, {}
    data = base64.b64decode(text)
    _, partition_time = struct.unpack(">bq", data[:9])
    return partition_time, json.loads(data[9:])


class StreamTask(Task):
    """One active task; ``consumer`` is the main consumer of its thread."""

    role = "active"

    def __init__(
        self,
        task_id: TaskId,
        partitions: Iterable[TopicPartition],
        topology: TaskTopology,
        manager: StateManager,
        told: TaskFacts,
        task_timeout_ms: int,
        *,
        collector: RecordCollector,
        consumer: Client,
        serdes: Serdes,
        exactly_once: bool,
        max_task_idle_ms: int,
        buffered_max: int,
        skips_corrupt: bool,
        rules: StreamsRules,
    ) -> None:
        """``skips_corrupt``: the deserialization exception handler answers CONTINUE."""
        super().__init__(task_id, partitions, topology, manager, told, task_timeout_ms)
        self.collector = collector
        self._consumer = consumer
        self._serdes = serdes
        self._exactly_once = exactly_once
        self._buffered_max = buffered_max  # buffered.records.per.partition
        self._skips_corrupt = skips_corrupt
        self._rules = rules
        self.group = PartitionGroup(self.partitions, max_task_idle_ms, self._deserialize)
        self.consumed: dict[TopicPartition, int] = {}  # offset of the last processed record
        self.committed: dict[TopicPartition, int] = {}  # next offset, as brokers have it
        self._commit_pending = False  # a transaction is to be committed again before more records
        self._metadata_needs_commit = False
        self._to_resume: dict[TopicPartition, None] = {}
        self._to_reset: dict[TopicPartition, None] = {}  # positions to find again after a revival

    # States.

    async def initialize(self) -> None:
        """Open the stores; the task is to be restored then (initializeIfNeeded)."""
        if self.state is TaskState.CREATED:
            await self.collector.initialize()
            await self.manager.open(self.topology.stores)
            self.manager.start_snapshot()
            self.move(TaskState.RESTORING, "created")

    async def complete_restoration(self) -> None:
        """Begin to process (completeRestoration).

        The committed offsets come late if the thread has rejoined its group meanwhile: the
        coordinator reads no request of a connection before it has answered the one before, here a
        JoinGroup that waits for all members (SocketServer mutes the channel).

        Raises:
            KafkaTimeoutError: the committed offsets are not known in time; the task is tried again.
        """
        assert self.state is TaskState.RESTORING, (self.id, self.state)
        await self._initialize_positions()
        self.topology.init()
        if not self._exactly_once:
            await self.maybe_checkpoint(True)
        elif self._rules.deletes_checkpoint_before_running():
            await self.manager.delete_checkpoint()
        self.move(TaskState.RUNNING, "restored")
        self._tell_state()

    def _tell_state(self) -> None:
        stores = [
            store
            for store in self.topology.stores.values()
            if store.spec.kind in (StoreKind.KEY_VALUE, StoreKind.PLAIN)
        ]
        if stores:
            names = tuple([store.name for store in stores])
            digests = tuple([digest(store.all()) for store in stores])
            group = self.told.group
            self.told.port.record(facts.StateOpened(group, str(self.id), names, digests))

    async def _initialize_positions(self) -> None:
        """Read committed offsets, with the times that were kept with them (KAFKA-7994)."""
        found = await self._consumer.call("committed", self.partitions, True)
        self.topology.metadata.clear()
        begin = [tp for tp in self._to_reset if found.get(tp) is None]
        for tp, entry in found.items():
            if entry is None:
                continue
            offset, text = entry
            self.committed[tp] = offset
            if tp in self._to_reset:
                await self._consumer.call("seek", tp, offset)
            partition_time, processor = decode_metadata(text)
            self.group.set_partition_time(tp, partition_time)
            for key, value in processor.items():
                known = self.topology.metadata.get(key, value)
                self.topology.metadata[key] = max(known, value)
        if begin:
            await self._consumer.call("seek_to_beginning", tuple(begin))
        self._to_reset.clear()
        self.topology.stream_time_ms = self.group.stream_time

    async def suspend(self, reason: str) -> None:
        """Close the processors; what waits in queues will be fetched again."""
        if self.state is TaskState.SUSPENDED:
            return
        if self.state is TaskState.RUNNING:
            self.topology.close()
            self.group.clear()
            self.topology.stream_time_ms = UNKNOWN
        self.move(TaskState.SUSPENDED, reason)

    async def resume(self) -> None:
        """Go on after a suspension: as a restored task does (KAFKA-10362)."""
        if self.state is TaskState.SUSPENDED:
            await self.manager.delete_checkpoint()
            self.move(TaskState.RESTORING, "resumed")

    async def close(self, clean: bool, reason: str) -> None:
        """Close the stores and the collector; nothing of a task closed dirty is committed.

        Raises:
            TaskMigrated: it is to be closed clean, and something is not committed.
        """
        if self.state is TaskState.CLOSED:
            return
        if clean:
            self.validate_clean()
        self._clear_commit()
        if not clean:
            self.topology.clear_caches()
        await self.manager.close(clean, reason)
        await self.collector.close(clean, self._rules.forgets_written_offsets())
        self.consumed.clear()
        self._to_resume.clear()
        self.move(TaskState.CLOSED, reason)

    async def recycle(self) -> None:
        """End as an active task: another thread's writes may pass the cache by (KAFKA-14172)."""
        await super().recycle()
        if self._rules.clears_caches_when_recycled():
            self.topology.clear_caches()
        await self.collector.close(True, self._rules.forgets_written_offsets())

    def validate_clean(self) -> None:
        """Raise TaskMigrated if something is not committed (validateClean)."""
        if self.commit_needed and self._rules.refuses_dirty_recycling():
            raise TaskMigrated(f"Tried to close dirty task {self.id} as clean")

    async def reset_positions(self, assigned: Iterable[TopicPartition]) -> None:
        """Pause inputs whose positions are to be the committed ones after a revival."""
        partitions = tuple([tp for tp in self.partitions if tp in assigned])
        if partitions:
            await self._consumer.call("pause", partitions)
        self._to_reset |= dict.fromkeys(partitions)

    # Processing.

    async def add(self, tp: TopicPartition, records: Iterable[Queued]) -> None:
        """Queue polled records; a long queue pauses its partition.

        Raises:
            StreamsError: the first of them cannot be deserialized.
        """
        if self.group.add(tp, records) > self._buffered_max:
            await self._consumer.call("pause", (tp,))

    def _deserialize(self, tp: TopicPartition, queued: Queued) -> StreamRecord | None:
        """Return what a record says, None if it is skipped (RecordDeserializer).

        Raises:
            StreamsError: the handler of deserialization exceptions fails (FAIL), or the record's
                timestamp is negative (FailOnInvalidTimestamp).
        """
        value = self._serdes.value_in(queued.record_id)
        try:
            value = self.topology.deserialized(tp.topic, value)
        except StreamsFailure as error:
            if not self._skips_corrupt:
                raise StreamsError(
                    f"task {self.id}: Deserialization exception handler is set to fail upon a "
                    f"deserialization error: offset {queued.offset} of {tp}: {error}"
                ) from error
            context = RecordContext(tp.topic, tp.partition, queued.offset, queued.timestamp)
            source = self.topology.source(tp.topic)
            self.topology.port.drop(source, Dropped.DESERIALIZATION, context, None)
            return None
        if queued.timestamp < 0:
            raise StreamsError(
                f"task {self.id}: Input record at offset {queued.offset} of {tp} has invalid "
                "(negative) timestamp"
            )
        return StreamRecord(self._serdes.key_in(tp.topic, queued.key), value, queued.timestamp)

    def process(self, now_ms: int) -> bool:
        """Process one record, if there is one and the task need not wait for others.

        Raises:
            StreamsError: an output failed, or the next record cannot be deserialized.
            StreamsFailure: an operator stops the application.
        """
        if self.state is TaskState.CLOSED or self._commit_pending or not self.group.ready(now_ms):
            return False
        taken = self.group.take()
        if taken is None:
            return False
        queue, head = taken
        if head.record is not None:
            self._process(queue.tp, head, head.record, now_ms)
        self.consumed[queue.tp] = head.offset
        self.commit_needed = True
        if self._resumes(len(queue)):
            self._to_resume[queue.tp] = None
        return True

    def _process(self, tp: TopicPartition, head: Head, record: StreamRecord, now_ms: int) -> None:
        by = self.told
        by.port.record(
            facts.TaskTook(
                by.group, by.thread, str(self.id), tp.topic, tp.partition, head.offset,
                told(record.key), told(record.value), record.timestamp, now_ms,
            )
        )  # fmt: skip
        self.topology.process(tp.topic, tp.partition, head.offset, record)

    def _resumes(self, waiting: int) -> bool:
        if self._rules.resumes_by_size():
            return waiting <= self._buffered_max
        return waiting == self._buffered_max

    async def resume_partitions(self) -> None:
        """Resume partitions whose queues have room again."""
        if self._to_resume:
            partitions = tuple(self._to_resume)
            self._to_resume.clear()
            await self._consumer.call("resume", partitions)

    def update_lags(self, lags: Mapping[TopicPartition, int | None]) -> None:
        """Learn how far brokers are ahead of the consumer."""
        if self.state is TaskState.RUNNING:
            self.group.update_lags(lags)

    def punctuate(self, now_ms: int) -> int:
        """Fire punctuators by stream time, then by the clock; return how many kinds fired."""
        fired = 0
        if self.topology.punctuate_stream_time():
            fired += self._punctuated(False, now_ms)
        if self.topology.punctuate_wall_clock():
            fired += self._punctuated(True, now_ms)
        return fired

    def _punctuated(self, wall_clock: bool, now_ms: int) -> int:
        by = self.told
        self.commit_needed = True
        by.port.record(facts.TaskPunctuated(by.group, by.thread, str(self.id), wall_clock, now_ms))
        return 1

    # Commits.

    async def prepare_commit(self) -> Offsets:
        """Let the caches go on, wait for all results, and return the offsets to commit.

        Raises:
            StreamsError: an output failed.
        """
        if not self.commit_needed:
            return {}
        self.topology.flush_caches()
        by = self.told
        offsets = await self._offsets()
        by.port.record(facts.TaskFlushed(by.group, by.thread, str(self.id), _texts(offsets)))
        await self.collector.flush()
        self._commit_pending = self._exactly_once
        return offsets

    async def _offsets(self) -> Offsets:
        if self.state not in (TaskState.RUNNING, TaskState.SUSPENDED):
            return {}
        wanted = self.partitions if self._metadata_needs_commit else tuple(self.consumed)
        offsets: Offsets = {}
        for tp in wanted:
            position, epoch = await self._next_offset(tp)
            time = self.group.queues[tp].partition_time
            offsets[tp] = (position, epoch, encode_metadata(time, self.topology.metadata))
        return offsets

    async def _next_offset(self, tp: TopicPartition) -> tuple[int, int]:
        """Return what is to be processed next, and its leader epoch (findOffsetAndMetadata).

        Of a record that waits in the queue the epoch is −1 here; Kafka has it.
        """
        head = self.group.head_offset(tp)
        if head is not None:
            return head, -1
        known: tuple[int, int] | None = await self._consumer.call("next_offset", tp)
        if known is None:
            return self.consumed.get(tp, -1) + 1, -1
        return known if self._rules.commits_leader_epochs() else (known[0], -1)

    def on_committed(self, offsets: Offsets) -> None:
        """Learn that offsets of the task are committed."""
        for tp, (offset, _, _) in offsets.items():
            self.committed[tp] = offset
        by = self.told
        by.port.record(facts.TaskCommitted(by.group, by.thread, str(self.id), _texts(offsets)))

    async def post_commit(self, force: bool) -> None:
        """Write a checkpoint, if it is due; a running task of exactly_once_v2 only with force."""
        if self.state is TaskState.CREATED:
            pass
        elif self.state is not TaskState.RUNNING or force or not self._exactly_once:
            await self.maybe_checkpoint(force)
        self._clear_commit()

    def _clear_commit(self) -> None:
        self.commit_needed = self._commit_pending = self._metadata_needs_commit = False

    async def maybe_checkpoint(self, force: bool) -> None:
        """Flush the stores and write the checkpoint file, if it is due or ``force``."""
        if self.commit_needed or force:
            written = dict(self.collector.offsets)
            for tp, offset in self.consumed.items():
                written.setdefault(tp, offset)
            self.manager.update_offsets(written)
        await self.manager.maybe_checkpoint(force)

    def purgeable(self, repartition_topics: Iterable[str]) -> dict[TopicPartition, int]:
        """Return below which offsets repartition records may be deleted (KAFKA-17635)."""
        known = self.committed
        if not self._rules.purges_committed_only():
            known = {tp: offset + 1 for tp, offset in self.consumed.items()}
        return {tp: offset for tp, offset in known.items() if tp.topic in repartition_topics}


def _texts(offsets: Offsets) -> tuple[str, ...]:
    return tuple([f"{tp}@{offset}" for tp, (offset, _, _) in sorted(offsets.items())])
