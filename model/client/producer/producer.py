"""The producer as an application sees it: Kafka's KafkaProducer.

``send`` gets its reply when the record is in the accumulator. It waits while the topic's metadata
or buffer.memory is missing, for at most max.block.ms. The result of a record is a fact (Acked or
SendFailed), and a second reply for the calls that want one.

A producer with a transactional.id has the calls of ``transactions/calls.py`` beside ``send``.

Not modelled: interceptors, idle topics leaving the metadata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import (
    BufferExhaustedError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
)
from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.net.metadata import Metadata
from kafkasim.model.client.producer.accumulator import RecordAccumulator
from kafkasim.model.client.producer.partitioner import (
    DefaultPartitioner,
    Partitioner,
    StickyPartitioner,
    partitioner_class,
    positive_hash,
)
from kafkasim.model.client.producer.sender import Sender
from kafkasim.model.client.producer.sends.blocked import BlockedSend, Missing
from kafkasim.model.client.producer.sends.prepared import PreparedBatches
from kafkasim.model.client.producer.transaction_manager import TransactionManager
from kafkasim.model.client.producer.transactions.calls import TransactionCalls
from kafkasim.model.config import ProducerConfig
from kafkasim.model.effects import Reply
from kafkasim.model.errors import Errors
from kafkasim.model.facts import SendFailed
from kafkasim.model.records import NO_HEADERS

if TYPE_CHECKING:
    from kafkasim.model.client.producer.batches import PartitionQueue, ProducerBatch
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.compression import Compressor
    from kafkasim.model.effects import Process
    from kafkasim.model.records import TopicPartition

KEYS_CACHED_MAX = 100_000
NEVER_US = 1 << 62

FAILS_FUTURE = (
    ProducerFencedError, InvalidProducerEpochError, KafkaTimeoutError, RecordTooLargeError,
)  # fmt: skip
"""What send() does not raise: they are ApiExceptions, with which KafkaProducer.doSend returns a
failed future. So an application that does not look at it goes on, and learns of it from its commit
if it has a transaction. send() raises other exceptions: that the producer is closed, that the call
does not fit the transaction's state, or that the transaction has failed before."""

Args = tuple[Any, ...]
"""The arguments of a call of send()."""


def producer_config(properties: Mapping[str, Any]) -> ProducerConfig:
    """Build a producer's configuration from Kafka's property names.

    Settings that contradict idempotence turn it off silently, unless enable.idempotence is set
    (ProducerConfig.postProcessAndValidateIdempotenceConfigs, KIP-679).

    Raises:
        ConfigError: a key or value is wrong, or contradicts an explicit enable.idempotence.
    """
    properties = dict(properties)
    if "enable.idempotence" not in properties:
        acks = str(properties.get("acks", "all"))
        in_flight = int(properties.get("max.in.flight.requests.per.connection", 5))
        retries = int(properties.get("retries", 1))
        properties["enable.idempotence"] = acks in ("all", "-1") and in_flight <= 5 and retries != 0
    return ProducerConfig.from_properties(properties)


def key_bytes(key: str | bytes) -> bytes:
    """Return a key as it is on the wire."""
    return key.encode() if isinstance(key, str) else key


REFUSED = (Errors.TOPIC_AUTHORIZATION_FAILED, Errors.INVALID_TOPIC_EXCEPTION)
"""Errors of a topic that its metadata has told of, with which a waiting send fails at once
(Metadata.maybeThrowExceptionForTopic)."""


class KafkaProducer:
    """One producer of a client process."""

    def __init__(
        self,
        process: Process,
        name: str,
        config: ProducerConfig,
        bootstrap: tuple[str, ...],
        rules: ClientRules,
        compressor: Compressor,
    ) -> None:
        self.process = process
        self.config = config
        self.connections = Connections(process, name, config, bootstrap, "produce", rules)
        self.metadata = Metadata(self.connections, rules, auto_create=True)
        self.accumulator = RecordAccumulator(
            config, self._on_release, compressor, rules.stops_drain_at_held_back()
        )
        self.sender = sender = Sender(config, rules, self.metadata, self.accumulator)
        self.metadata.listeners.append(self._on_metadata)
        self._rules = rules
        self._sticky: dict[str, StickyPartitioner] = {}
        self._partitioners: dict[str, Partitioner] = {}  # by topic
        self._new_partitioner: Callable[[], Partitioner] | None = None  # None: the built-in one
        if config.partitioner_class:
            self._new_partitioner = partitioner_class(config.partitioner_class)
        elif not rules.sticks_by_bytes():
            self._new_partitioner = partial(DefaultPartitioner, process.rng)
        self._keys: dict[str | bytes, tuple[int, int]] = {}  # (hash, bytes) of keys used before
        self._blocked: deque[BlockedSend] = deque()  # all, in the order of their deadlines
        self._for_metadata: list[BlockedSend] = []
        self._for_memory: deque[BlockedSend] = deque()  # BufferPool.waiters
        self._block_key = ("max.block", name)
        self._serving = False  # the sends that wait for memory are being tried
        self._closing: list[Callable[[], None]] = []  # called at the end of the close
        self._closed = False
        self.methods = {"send": self.send, "flush": self.flush, "close": self.close}
        self.methods["partitions_for"] = self.partitions_for
        self.transactions: TransactionCalls | None = None
        if config.transactional_id is not None:
            self.transactions = TransactionCalls(
                config,
                rules,
                self.metadata,
                self.accumulator.incomplete,
                sender,
                self._finish_flushes,
            )
            self.methods |= self.transactions.methods
        elif config.enable_idempotence:
            sender.use(TransactionManager(self.connections, rules, sender))
        self.methods["send_batch"] = self._prepared_batches().send

    @property
    def oldest_send_us(self) -> int:
        """When the oldest send without a result was called, or its batch begun; 2^62 for none."""
        oldest = next(iter(self.accumulator.incomplete.values()), None)
        waiting = (each.since for each in self._blocked if each.waits)
        return min(NEVER_US if oldest is None else oldest.created_us, next(waiting, NEVER_US))

    # Calls.

    def send(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Take (topic, key, record_id, value_size, partition, want_ack) into the accumulator.

        The key and the partition may be None. The partition may be a custom partitioner, too
        (``partitioner.Partitioner``). A seventh argument is the bytes of the headers with their
        count, an eighth the timestamp in ms; without it, or with None, the record has the time of
        the call. With ``want_ack`` the call -``call`` gets (partition, offset, timestamp in ms,
        whether the broker set it) or an error once the record has its result.
        """
        if len(args) < 8:
            args = (*args, *(NO_HEADERS, None)[len(args) - 6 :])
        if self._closed:
            self._not_taken(call, args, KafkaError("CLOSED", "producer is closed"), 0)
            return
        if self._new_partitioner is not None or callable(args[4]):
            args = self._placed(args, now)
        missing = self._append(call, args, now, not self._for_memory)
        if missing is None:
            return
        waiting = BlockedSend(call, args, now, now + self.config.max_block_ms * 1000)
        self._blocked.append(waiting)
        self._wait_for(missing, waiting)
        if not self.process.timers.armed(self._block_key):
            self._arm_block_timeout(waiting.deadline)
        self._update_linger()

    def _prepared_batches(self) -> PreparedBatches:
        return PreparedBatches(
            self.metadata,
            self.accumulator,
            self.sender,
            self.transactions,
            self._refuses_batches,
            self._tell_not_taken,
        )

    def _refuses_batches(self) -> KafkaError | None:
        """Return why no prepared batch is taken: it may not overtake sends that wait for memory."""
        if self._closed:
            return KafkaError("CLOSED", "producer is closed")
        return BufferExhaustedError("BUFFER_EXHAUSTED", "no memory") if self._for_memory else None

    def flush(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply when every record sent before has its result; lingering ends at once."""
        self.accumulator.begin_flush(call)
        self.sender.drain_all(now)
        self._finish_flushes(now)

    def close(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Wait until every record has its result, then close the connections and reply.

        An open transaction is aborted.
        """
        self.shut(now, partial(self._reply, call))

    def shut(self, now: int, done: Callable[[], None]) -> None:
        """Close, then call ``done()``."""
        self._closed = True
        if self.transactions is not None:
            self.transactions.closed = True
        self._closing.append(done)
        for waiting in self._blocked:
            if waiting.waits:
                error = KafkaError("CLOSED", "producer closed while send waited")
                self._refuse(waiting, error, now)
        self._blocked.clear()
        self._for_metadata.clear()
        self._for_memory.clear()
        self._update_linger()
        self.sender.drain_all(now)
        self._finish_flushes(now)

    def force_close(self, now: int) -> None:
        """Give up what the close still waits for, and end it (forceClose)."""
        self.sender.abort("PRODUCER_CLOSED", False, now)
        self._end_close()

    # Into the accumulator.

    def _append(self, call: int, args: Args, now: int, may_allocate: bool) -> Missing | None:
        """Append a record and reply, or return what is missing; see accumulator.append."""
        topic, key, record_id, value_size, partition, want_ack, headers_size, timestamp_ms = args
        count = self.metadata.partition_counts.get(topic)
        if count is None or (partition is not None and partition >= count):
            self._request_metadata(topic, now)
            return Missing.METADATA
        accumulator = self.accumulator
        sticky = None
        if key is not None:
            key_hash, key_size = self._keys.get(key) or self._learn_key(key)
            queue = accumulator.queue(topic, key_hash % count if partition is None else partition)
        elif partition is not None:
            key_size, queue = -1, accumulator.queue(topic, partition)
        else:
            sticky = self._sticky.get(topic) or self._new_sticky(topic)
            key_size, queue = -1, self._stick(topic, sticky, count)
        process = self.process
        error = accumulator.too_large(key_size, value_size, headers_size)
        if error is not None:
            self._not_taken(call, args, error, 0)
            return None
        batch = accumulator.append(
            queue,
            key,
            key_size,
            record_id,
            value_size,
            process.wall_ms(now) if timestamp_ms is None else timestamp_ms,
            call if want_ack else None,
            may_allocate,
            now,
            headers_size,
        )
        if batch is None:
            if len(queue.batches) == 1 and queue.batches[0].full:
                self.sender.queue_ready(queue, False, now)
            return Missing.MEMORY
        transactions = self.transactions
        refusal = None if transactions is None else self._join(call, queue.tp, record_id, batch)
        process.out.append(Reply(call, None, refusal))
        if sticky is not None:
            sticky.appended(batch.records[-1].size, batch.full)
        new_batch = len(batch.records) == 1
        if new_batch or batch.full:
            self.sender.queue_ready(queue, new_batch, now)
            if transactions is not None:
                self.sender.run(now)
        return None

    def _join(
        self, call: int, tp: TopicPartition, record_id: int, batch: ProducerBatch
    ) -> KafkaError | None:
        """Take the last record of a batch into the transaction.

        Return what send() raises. Where it returns a failed future the call gets None, and its
        result is the error; it raises all the same if the producer may not go to an error state.
        """
        assert self.transactions is not None, tp
        error = self.transactions.sent(tp, record_id)
        if not isinstance(error, FAILS_FUTURE):
            return error
        told = self._not_sent(error)
        if told is not error:
            return told
        if batch.forget_ack(call):
            self.process.out.append(Reply(-call, None, error))
        return None

    def _placed(self, args: Args, now: int) -> Args:
        """Return the arguments of a send with the partition that its partitioner chooses.

        Nothing changes with the built-in one, nor before the topic's partitions are known.
        """
        partitioner = args[4]
        if partitioner is None and self._new_partitioner is not None:
            partitioner = self._partitioners.get(args[0])
            if partitioner is None:
                self._partitioners[args[0]] = partitioner = self._new_partitioner()
        count = self.metadata.partition_counts.get(args[0])
        if count is None or not callable(partitioner):
            return args
        topic, key, record_id, value_size, _, want_ack, headers_size, timestamp_ms = args
        data = None if key is None else key_bytes(key)
        every, available = range(count), self.metadata.available(topic)
        partition = partitioner(data, every, available)
        if self._rules.partitions_again_for_new_batch():
            queue = self.accumulator.queue(topic, partition)
            sizes = (-1 if data is None else len(data), value_size)
            wall_ms = self.process.wall_ms(now) if timestamp_ms is None else timestamp_ms
            if not self.accumulator.takes(queue, *sizes, wall_ms, headers_size):
                if isinstance(partitioner, DefaultPartitioner):
                    partitioner.on_new_batch(partition, every, available)
                partition = partitioner(data, every, available)
        return topic, key, record_id, value_size, partition, want_ack, headers_size, timestamp_ms

    def partitions_for(self, call: int, args: tuple[Any, ...], now: int) -> None:
        """Reply how many partitions (topic,) has; None, and ask for it, if that is not known."""
        count = self.metadata.partition_counts.get(args[0])
        self.metadata.add_topics((args[0],), now)
        self.process.out.append(Reply(call, count, None))

    def _request_metadata(self, topic: str, now: int) -> None:
        """Ask for a topic, or again for one that does not have the partition yet."""
        self.metadata.add_topics((topic,), now)
        known = self.metadata
        if topic in known.partition_counts or known.topic_errors.get(topic) in REFUSED:
            known.request_update(now)

    def _new_sticky(self, topic: str) -> StickyPartitioner:
        self._sticky[topic] = sticky = StickyPartitioner(self.config.batch_size, self.process.rng)
        return sticky

    def _stick(self, topic: str, sticky: StickyPartitioner, count: int) -> PartitionQueue:
        """Return the queue of the partition to which a topic's next record without a key goes."""
        queues = self.accumulator.queues
        if sticky.partition >= 0:
            queue = queues[(topic, sticky.partition)]
            if queue.batches and not queue.batches[-1].full:
                return queue
            sticky.at_boundary()
            if sticky.partition >= 0:
                return queue
        partitions = self.metadata.available(topic) or list(range(count))
        known = [queues.get((topic, p)) for p in partitions]
        chosen = sticky.choose(partitions, [len(q.batches) if q else 0 for q in known])
        return self.accumulator.queue(topic, chosen)

    def _learn_key(self, key: str | bytes) -> tuple[int, int]:
        if len(self._keys) >= KEYS_CACHED_MAX:
            self._keys.clear()
        data = key_bytes(key)
        self._keys[key] = known = (positive_hash(data), len(data))
        return known

    # Results and blocked sends.

    def _on_release(self, now: int) -> None:
        """Go on with what waits for memory or for results."""
        if self._for_memory:
            self._serve_memory(now)
        if self.accumulator.flushing or self._closing:
            self._finish_flushes(now)

    def _on_metadata(self, now: int) -> None:
        self.sender.on_metadata(now)
        waiting, self._for_metadata = self._for_metadata, []
        heard_of = self.metadata.topic_errors
        for blocked in waiting:
            topic = blocked.args[0]
            if blocked.waits and (error := heard_of.get(topic)) in REFUSED:
                self._refuse(blocked, KafkaError(error.name, topic), now)
            elif blocked.waits:
                self._try(blocked, not self._for_memory, now)
        if waiting:
            self._update_linger()
        if any(blocked.args[0] not in heard_of for blocked in self._for_metadata):
            self.metadata.request_update_for_new_topics(now)  # ProducerMetadata.newTopics

    def _wait_for(self, missing: Missing, blocked: BlockedSend) -> None:
        if missing is Missing.METADATA:
            self._for_metadata.append(blocked)
        else:
            self._for_memory.append(blocked)

    def _try(self, blocked: BlockedSend, may_allocate: bool, now: int) -> None:
        """Try a blocked send again; it is done, or goes on waiting."""
        blocked.args = self._placed(blocked.args, now)
        missing = self._append(blocked.call, blocked.args, now, may_allocate)
        if missing is None:
            blocked.waits = False
        else:
            self._wait_for(missing, blocked)

    def _serve_memory(self, now: int) -> None:
        """Give free memory to the sends that wait for it, in their order, while there is enough.

        BufferPool.deallocate signals the first waiter, and each that got its memory the next. A
        send with acks=0 is done at once and frees its memory meanwhile.
        """
        if self._serving:
            return
        self._serving = True
        while self._for_memory:
            first = self._for_memory[0]
            if first.waits:
                _, key, _, value_size, _, _, headers_size, _ = first.args
                key_size = -1 if key is None else len(key_bytes(key))
                if not self.accumulator.has_memory(key_size, value_size, headers_size):
                    break
            self._for_memory.popleft()
            if first.waits:
                self._try(first, True, now)
        self._serving = False
        self._update_linger()

    def _update_linger(self) -> None:
        """Have batches sent without lingering while memory is short, and in flush and close."""
        accumulator = self.accumulator
        while self._for_memory and not self._for_memory[0].waits:
            self._for_memory.popleft()
        accumulator.skips_linger = (
            bool(self._for_memory)
            or accumulator.flushing
            or self._closed
            or (self.transactions is not None and self.transactions.completing)
        )

    def _arm_block_timeout(self, deadline: int) -> None:
        self.process.timers.arm(self._block_key, deadline, "main", self._on_block_timeout)

    def _on_block_timeout(self, now: int) -> None:
        blocked = self._blocked
        while blocked and (blocked[0].deadline <= now or not blocked[0].waits):
            waiting = blocked.popleft()
            if waiting.waits:
                self._refuse(waiting, self._time_out(waiting), now)
        if blocked:
            self._arm_block_timeout(blocked[0].deadline)
        self._for_metadata = [waiting for waiting in self._for_metadata if waiting.waits]
        self._update_linger()

    def _time_out(self, waiting: BlockedSend) -> KafkaTimeoutError:
        """Return the error of a send after max.block.ms: BufferPool has one of its own."""
        if waiting in self._for_memory:
            return BufferExhaustedError("BUFFER_EXHAUSTED", "max.block.ms")
        return KafkaTimeoutError("TIMED_OUT", "max.block.ms")

    def _refuse(self, waiting: BlockedSend, error: KafkaError, now: int) -> None:
        waiting.waits = False
        self._not_taken(waiting.call, waiting.args, error, now - waiting.since)

    def _not_taken(self, call: int, args: Args, error: KafkaError, waited: int) -> None:
        """Tell that a record did not get into the accumulator, after so many µs."""
        self._tell_not_taken(args[0], (args[2],), error, waited)
        told = self._not_sent(error)
        if told is not error or not isinstance(error, FAILS_FUTURE):
            self.process.out.append(Reply(call, None, told))
            return
        self.process.out.append(Reply(call, None, None))
        if args[5]:
            self.process.out.append(Reply(-call, None, error))

    def _tell_not_taken(
        self,
        topic: str,
        record_ids: tuple[int, ...],
        error: KafkaError,
        waited: int,
    ) -> None:
        topic_id = self.metadata.last_topic_ids.get(topic, "")
        fact = SendFailed(topic_id, -1, record_ids, error.error, False, waited, 0)
        self.process.out.append(fact)

    def _not_sent(self, error: KafkaError) -> KafkaError:
        """Return the error of a send; it lets an open transaction fail."""
        if self.transactions is None or self._closed:
            return error
        return self.transactions.not_sent(error)

    def _finish_flushes(self, now: int) -> None:
        """Reply to the flushes, and to the close, whose records all have their results."""
        for call in self.accumulator.finished_flushes():
            self.process.out.append(Reply(call, None, None))
        self._update_linger()
        if self._closing and not self.accumulator.incomplete:
            if self.transactions is not None and not self.transactions.close(now):
                return
            self._end_close()

    def _end_close(self) -> None:
        closing, self._closing = self._closing, []
        self.metadata.close()
        self.connections.close()
        for done in closing:
            done()

    def _reply(self, call: int) -> None:
        self.process.out.append(Reply(call, None, None))
