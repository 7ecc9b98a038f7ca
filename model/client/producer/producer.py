"""The producer as an application sees it: Kafka's KafkaProducer and RecordAccumulator.append.

``send`` is accepted when the record is in the accumulator; it waits while the topic's metadata or
buffer.memory is missing, at most max.block.ms. Results are facts (Acked, SendFailed), and a second
reply to the calls that want one.

Not modelled: transactions, interceptors, compression, idle topics leaving the metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.client.producer.accumulator import PartitionQueue, ProducerBatch
from kafkasim.model.client.producer.partitioner import StickyPartitioner, partition_for_key
from kafkasim.model.client.producer.sender import Sender
from kafkasim.model.config import ProducerConfig
from kafkasim.model.effects import Reply
from kafkasim.model.facts import SendFailed
from kafkasim.model.records import Record, TopicPartition, record_size

if TYPE_CHECKING:
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.effects import Process

KEYS_CACHED_MAX = 100_000


def producer_config(properties: Mapping[str, Any]) -> ProducerConfig:
    """Build a producer's configuration as Kafka does: settings that contradict idempotence turn it
    off silently, unless enable.idempotence is named (KafkaProducer.configureAcks, KIP-679)."""
    properties = dict(properties)
    if "enable.idempotence" not in properties:
        acks = str(properties.get("acks", "all"))
        in_flight = int(properties.get("max.in.flight.requests.per.connection", 5))
        retries = int(properties.get("retries", 1))
        properties["enable.idempotence"] = acks in ("all", "-1") and in_flight <= 5 and retries != 0
    return ProducerConfig.from_properties(properties)


class Blocked:
    """A send that waits for metadata or memory."""

    __slots__ = ("args", "call", "deadline", "for_memory", "since")

    def __init__(self, call: int, args: tuple[Any, ...], since: int, deadline: int) -> None:
        self.call = call
        self.args = args
        self.since = since
        self.deadline = deadline
        self.for_memory = False


class KafkaProducer:
    """One producer of a client process."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ProducerConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
    ) -> None:
        self.process = process
        self.name = name
        self.config = config
        self.rules = rules
        self.connections = Connections(process, name, config, bootstrap, "produce")
        self.metadata = Metadata(self.connections, rules, auto_create=True)
        self.queues: dict[TopicPartition, PartitionQueue] = {}
        self.sender = Sender(self)
        self.metadata.listeners.append(self._on_metadata)
        self.memory = config.buffer_memory  # what is free
        self.incomplete: dict[int, ProducerBatch] = {}  # by batch number, oldest first
        self._last_number = 0
        self._sticky: dict[str, StickyPartitioner] = {}
        self._keys: dict[str, tuple[bytes, int]] = {}
        self._tps: dict[tuple[str, int], PartitionQueue] = {}
        self._sizes: dict[tuple[int, int], int] = {}
        self._blocked: deque[Blocked] = deque()
        self._retrying = False  # the blocked sends are being tried
        self._freed = False  # memory was released meanwhile
        self._flushes: list[tuple[int, int]] = []  # (call, last batch number)
        self._closing: int | None = None
        self._closed = False
        self._expiry_armed = False
        self.methods = {"send": self.send, "flush": self.flush, "close": self.close}

    # Calls.

    def send(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Take (topic, key, record_id, value_size, partition, want_ack) into the accumulator."""
        if self._closed:
            self.process.out.append(Reply(call, None, KafkaError("CLOSED", "producer is closed")))
            return
        if self._append(call, args, now, None):
            return
        waiting = Blocked(call, args, now, now + self.config.max_block_ms * 1000)
        waiting.for_memory = args[0] in self.metadata.partition_counts
        self._blocked.append(waiting)
        key = ("max.block", self.name)
        if not self.process.timers.armed(key):
            self.process.timers.arm(key, waiting.deadline, "main", self._on_block_timeout)
        self._set_exhausted()

    def flush(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply when all that was sent before has its result; lingering ends at once."""
        self._flushes.append((call, self._last_number))
        self.sender.exhausted = True
        self.sender.drain_all(now)
        self._check_flushes()

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Flush, then close the connections and reply."""
        self._closed = True
        self._closing = call
        for waiting in self._blocked:
            self._refuse(waiting, KafkaError("CLOSED", "producer closed while send waited"), now)
        self._blocked.clear()
        self.sender.exhausted = True
        self.sender.drain_all(now)
        self._check_flushes()

    # Into the accumulator.

    def _append(self, call: int, args: tuple[Any, ...], now: int, retried: Blocked | None) -> bool:
        """Append a record; False if metadata or memory is missing."""
        topic, key, record_id, value_size, partition, want_ack = args
        count = self.metadata.partition_counts.get(topic)
        if count is None or (partition is not None and partition >= count):
            self.metadata.add_topics((topic,), now)
            if count is not None:
                self.metadata.request_update(now)
            return False
        key_size = -1
        sticky = None
        if key is not None:
            known = self._keys.get(key) or self._learn_key(key)
            key_size = known[1]
            if partition is None:
                partition = partition_for_key(known[0], count)
        elif partition is None:
            sticky = self._sticky.get(topic)
            if sticky is None:
                sticky = StickyPartitioner(self.config.batch_size, self.process.rng)
                self._sticky[topic] = sticky
            partition = self._stick(topic, sticky, count)
        queue = self._tps.get((topic, partition)) or self._new_queue(topic, partition)
        process = self.process
        timestamp = process.wall_ms(now)
        batches = queue.batches
        batch = batches[-1] if batches else None
        if batch is not None and not batch.full and not batch.attempts:
            records = batch.records
            size = record_size(
                key_size, value_size, len(records), timestamp - records[0].timestamp_ms
            )
            if batch.size + size > self.config.batch_size:
                batch.full = True
                batch = None
        else:
            batch = None
        fresh = batch is None
        if batch is None:
            sizes = self._sizes
            size = sizes.get((key_size, value_size)) or self._learn_size(key_size, value_size)
            error, batch = self._new_batch(queue, size, now, retried)
            if batch is None:
                if error is None:
                    if len(batches) == 1 and batches[0].full:
                        self.sender.on_ready(queue, now)
                    return False
                process.out.append(Reply(call, None, error))
                return True
        batch.records.append(Record(key, record_id, size, timestamp))
        batch.ids.append(record_id)
        batch.size += size
        if timestamp > batch.max_timestamp_ms:
            batch.max_timestamp_ms = timestamp
        if want_ack:
            if batch.acks is None:
                batch.acks = []
            batch.acks.append((call, len(batch.records) - 1))
        if batch.size >= self.config.batch_size:
            batch.full = True
        process.out.append(Reply(call, None, None))
        if sticky is not None:
            sticky.appended(size, batch.full)
        if fresh or batch.full:
            self.sender.on_ready(queue, now)
        return True

    def _new_batch(
        self, queue: PartitionQueue, size: int, now: int, retried: Blocked | None
    ) -> tuple[KafkaError | None, ProducerBatch | None]:
        config = self.config
        need = config.batch_size
        if size + 61 > need:
            need = size + 61
            if need > config.max_request_size or need > config.buffer_memory:
                return KafkaError("MESSAGE_TOO_LARGE", f"{need} bytes"), None
        if need > self.memory or (self._blocked and self._waits_before(retried)):
            return None, None
        self.memory -= need
        self._last_number = number = self._last_number + 1
        batch = ProducerBatch(queue, number, now, need)
        self.incomplete[number] = batch
        queue.batches.append(batch)
        if not self._expiry_armed:
            self._arm_expiry(now)
        return None, batch

    def _waits_before(self, retried: Blocked | None) -> bool:
        """Return whether an earlier send waits for memory: memory is given in order."""
        for waiting in self._blocked:
            if waiting is retried:
                return False
            if waiting.for_memory:
                return True
        return False

    def _stick(self, topic: str, sticky: StickyPartitioner, count: int) -> int:
        if sticky.partition >= 0:
            queue = self._tps.get((topic, sticky.partition))
            if queue is None or not queue.batches or queue.batches[-1].full:
                sticky.at_boundary()
            if sticky.partition >= 0:
                return sticky.partition
        leaders = self.metadata.leaders
        partitions = [p for p in range(count) if leaders[TopicPartition(topic, p)][0] >= 0]
        partitions = partitions or list(range(count))
        queues = [self._tps.get((topic, p)) for p in partitions]
        return sticky.choose(partitions, [len(q.batches) if q else 0 for q in queues])

    def _new_queue(self, topic: str, partition: int) -> PartitionQueue:
        queue = PartitionQueue(TopicPartition(topic, partition))
        self.queues[queue.tp] = self._tps[(topic, partition)] = queue
        return queue

    def _learn_key(self, key: str) -> tuple[bytes, int]:
        if len(self._keys) >= KEYS_CACHED_MAX:
            self._keys.clear()
        data = key.encode()
        self._keys[key] = known = (data, len(data))
        return known

    def _learn_size(self, key_size: int, value_size: int) -> int:
        size = record_size(key_size, value_size, 0, 0)
        self._sizes[(key_size, value_size)] = size
        return size

    # Out of it.

    def new_numbers(self, count: int) -> list[int]:
        """Return fresh batch numbers, for the parts of a split."""
        first = self._last_number + 1
        self._last_number += count
        return list(range(first, first + count))

    def replace(self, batch: ProducerBatch, parts: list[ProducerBatch]) -> None:
        """A batch was split: its parts are what is incomplete now."""
        batch.done = True
        del self.incomplete[batch.number]
        for part in parts:
            self.incomplete[part.number] = part
        self._flushes = [(call, parts[-1].number) for call, _ in self._flushes]

    def release(self, batch: ProducerBatch, now: int) -> None:
        """A batch has its result: its memory is free for whoever waits."""
        batch.done = True
        del self.incomplete[batch.number]
        self.memory += batch.allocated
        if self._blocked:
            self._retry_blocked(now)
        if self._flushes or self._closing is not None:
            self._check_flushes()

    def give_up(self, batch: ProducerBatch, error: str, now: int) -> None:
        """A batch failed for good: say so."""
        tp = batch.queue.tp
        self.process.out.append(
            SendFailed(
                self.metadata.last_topic_ids.get(tp.topic, ""),
                tp.partition,
                tuple(batch.ids),
                error,
                batch.indeterminate,
                now - batch.created_us,
                batch.attempts,
            )
        )
        for call, _ in batch.acks or ():
            kind = KafkaTimeoutError if error == "TIMED_OUT" else KafkaError
            self.process.out.append(Reply(-call, None, kind(error, str(tp))))
        self.release(batch, now)

    def _on_metadata(self, now: int) -> None:
        self.sender.on_metadata(now)
        if self._blocked:
            self._retry_blocked(now)

    def _retry_blocked(self, now: int) -> None:
        """Try the blocked sends in order; one with acks=0 is done at once and frees memory."""
        self._freed = True
        if self._retrying:
            return
        self._retrying = True
        while self._freed:
            self._freed = False
            for blocked in list(self._blocked):
                if self._append(blocked.call, blocked.args, now, blocked):
                    self._blocked.remove(blocked)
                else:
                    blocked.for_memory = blocked.args[0] in self.metadata.partition_counts
        self._retrying = False
        self._set_exhausted()

    def _set_exhausted(self) -> None:
        waits = any(blocked.for_memory for blocked in self._blocked)
        self.sender.exhausted = waits or bool(self._flushes) or self._closed

    def _on_block_timeout(self, now: int) -> None:
        while self._blocked and self._blocked[0].deadline <= now:
            waiting = self._blocked.popleft()
            self._refuse(waiting, KafkaTimeoutError("TIMED_OUT", "max.block.ms"), now)
        if self._blocked:
            key = ("max.block", self.name)
            deadline = self._blocked[0].deadline
            self.process.timers.arm(key, deadline, "main", self._on_block_timeout)
        self._set_exhausted()

    def _refuse(self, waiting: Blocked, error: KafkaError, now: int) -> None:
        topic, _, record_id = waiting.args[:3]
        topic_id = self.metadata.last_topic_ids.get(topic, "")
        waited = now - waiting.since
        fact = SendFailed(topic_id, -1, (record_id,), error.error, False, waited, 0)
        self.process.out.append(fact)
        self.process.out.append(Reply(waiting.call, None, error))

    def _arm_expiry(self, created_us: int) -> None:
        self._expiry_armed = True
        deadline = created_us + self.sender.delivery_timeout_us
        key = ("delivery", self.name)
        self.process.timers.arm(key, deadline, "main", self._on_expiry)

    def _on_expiry(self, now: int) -> None:
        self._expiry_armed = False
        limit = now - self.sender.delivery_timeout_us
        for batch in list(self.incomplete.values()):
            if batch.created_us > limit:
                self._arm_expiry(batch.created_us)
                break
            if not batch.done:
                self.sender.expire(batch, now)
        ids = self.sender.ids
        if ids is not None and ids.attention:
            ids.run(now)
        self.sender.drain_all(now)

    def _check_flushes(self) -> None:
        oldest = next(iter(self.incomplete), None)
        for call, last in list(self._flushes):
            if oldest is None or oldest > last:
                self._flushes.remove((call, last))
                self.process.out.append(Reply(call, None, None))
        self._set_exhausted()
        if self._closing is not None and oldest is None:
            call, self._closing = self._closing, None
            self.metadata.close()
            self.connections.close()
            self.process.out.append(Reply(call, None, None))
