"""The producer of a stream thread, and the record collector of each of its tasks.

Models StreamsProducer and RecordCollectorImpl. There is one producer for each thread. Under
exactly_once_v2 its transaction begins with the first record after a commit, whichever task sends
it. An error of any record is thrown by the next send or flush of any task of the thread.

Differences: a send does not block the thread inside a processor; the thread waits, after the record
that it processes, until the producer has taken what was sent (:meth:`StreamsProducer.settle`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafkasim.model.client.exceptions import (
    CommitFailedError,
    InvalidProducerEpochError,
    KafkaError,
    KafkaTimeoutError,
    ProducerFencedError,
    TransactionAbortedError,
)
from kafkasim.model.client.producer.partitioner import positive_hash
from kafkasim.model.errors import RETRIABLE
from kafkasim.model.facts.streams import StreamsSent
from kafkasim.model.records import NO_HEADERS, TopicPartition
from kafkasim.model.streams.errors import StreamsError, TaskCorrupted, TaskMigrated
from kafkasim.model.streams.port import Client, Port, Promise, Serdes
from kafkasim.model.streams.records import Windowed, base_key, serialized
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.told import told

FENCED = (ProducerFencedError, InvalidProducerEpochError)
OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"
FENCED_NAMES = (
    "PRODUCER_FENCED", "INVALID_PRODUCER_EPOCH", "INVALID_PRODUCER_ID_MAPPING",
    "UNKNOWN_PRODUCER_ID",
)  # fmt: skip


def is_fencing(error: BaseException) -> bool:
    """Return whether an error says that another incarnation has taken over (isRecoverable)."""
    named = isinstance(error, KafkaError) and error.error in FENCED_NAMES
    return named or isinstance(error, FENCED)


def _is_retriable(error: BaseException) -> bool:
    return isinstance(error, KafkaError) and error.error in [each.name for each in RETRIABLE]


class StreamsProducer:
    """The producer of one thread; :meth:`renew` puts a new one in its place."""

    def __init__(self, port: Port, client: Client, *, exactly_once: bool) -> None:
        self._port = port
        self._client = client
        self._exactly_once = exactly_once
        self.in_transaction = False
        self._initialized = False
        self.error: StreamsError | None = None  # of a record, thrown by the next send or flush
        self._untaken: list[Promise] = []

    async def initialize(self) -> None:
        """Get a producer id and epoch, once (initTransaction).

        Raises:
            KafkaTimeoutError: max.block.ms passed; the task is tried again.
            StreamsError: the producer cannot be initialized.
        """
        if not self._exactly_once or self._initialized:
            return
        try:
            await self._client.call("init_transactions")
        except KafkaTimeoutError:
            raise
        except KafkaError as error:
            raise StreamsError(f"cannot initialize transactions: {error}") from error
        self._initialized = True

    def send(self, arguments: tuple[Any, ...], done: Callable[[Promise], None]) -> None:
        """Send a record; ``done(promise)`` gets (partition, offset) or the error.

        Raises:
            StreamsError: an earlier record failed.
        """
        self.check()
        self._begin()
        taken, acked = self._client.call_acked("send", *arguments)
        acked.add_done_callback(done)
        if not taken.done() or taken.exception() is not None:
            self._untaken.append(taken)

    def check(self) -> None:
        """Raise the error of an earlier record, once (checkForException)."""
        error, self.error = self.error, None
        if error is not None:
            raise error

    async def settle(self) -> None:
        """Wait until the producer has taken what was sent.

        Raises:
            TaskMigrated: another incarnation has fenced the producer.
            StreamsError: the producer refuses records.
        """
        untaken, self._untaken = self._untaken, []
        for each in untaken:
            try:
                await each
            except KafkaError as error:
                if is_fencing(error):
                    raise TaskMigrated(f"fenced while sending: {error}") from error
                if not isinstance(error, KafkaTimeoutError):
                    raise StreamsError(f"cannot send a record: {error}") from error

    async def flush(self) -> None:
        """Wait for the results of all records.

        Raises:
            StreamsError: one of them failed.
        """
        await self.settle()
        await self._client.call("flush")
        self.check()

    async def commit(self, offsets: Mapping[TopicPartition, Any], group: Any) -> None:
        """Commit the transaction with the offsets of inputs, also without any.

        Raises:
            TaskMigrated: the producer is fenced, or the member is not in the group.
            KafkaTimeoutError: max.block.ms passed.
            StreamsError: the transaction cannot be committed.
        """
        self._begin()
        try:
            await self._client.call("send_offsets_to_transaction", dict(offsets), group)
            await self._client.call("commit_transaction")
        except KafkaTimeoutError:
            raise
        except KafkaError as error:
            if is_fencing(error) or isinstance(error, CommitFailedError):
                raise TaskMigrated(f"fenced while committing: {error}") from error
            raise StreamsError(f"cannot commit a transaction: {error}") from error
        self.in_transaction = False

    async def abort(self) -> None:
        """Abort the open transaction, if there is one: a task is closed dirty."""
        if not self.in_transaction:
            return
        try:
            await self._client.call("abort_transaction")
        except KafkaTimeoutError:
            pass  # the coordinator aborts it after transaction.timeout.ms
        except KafkaError as error:
            if not is_fencing(error):
                raise StreamsError(f"cannot abort a transaction: {error}") from error
        self.in_transaction = False

    async def renew(self) -> None:
        """Close the producer and make a new one (resetProducer)."""
        await self._client.call("close")
        await self._client.call("renew")
        self.in_transaction = self._initialized = False
        self.error = None
        self._untaken.clear()

    async def close(self) -> None:
        """Close the producer."""
        await self._client.call("close")
        self.in_transaction = self._initialized = False

    def _begin(self) -> None:
        if self._exactly_once and not self.in_transaction:
            self._untaken.append(self._client.call("begin_transaction"))
            self.in_transaction = True


class RecordCollector:
    """Sends what one task writes, and keeps the offsets of acknowledged changelog records."""

    def __init__(
        self,
        task: TaskId,
        group: str,
        port: Port,
        producer: StreamsProducer,
        serdes: Serdes,
        *,
        exactly_once: bool,
    ) -> None:
        self._task = task
        self._group = group
        self._port = port
        self._producer = producer
        self._serdes = serdes
        self._exactly_once = exactly_once
        self._open = True
        self.offsets: dict[TopicPartition, int] = {}  # of the last acknowledged record

    async def initialize(self) -> None:
        """Make the producer ready to send."""
        await self._producer.initialize()

    def send(self, topic: str, key: Any, value: Any, timestamp: int) -> None:
        """Write a record to a sink's topic; its key without the window chooses the partition."""
        partition: Any = None
        if isinstance(key, Windowed):
            partition = _Placed(serialized(base_key(key)))
        record_id = self._send(topic, key, value, partition, timestamp)
        sent = StreamsSent(
            self._group, str(self._task), topic, record_id, told(key), told(value), timestamp
        )
        self._port.record(sent)

    def log(self, topic: str, key: Any, value: Any, timestamp: int | None) -> None:
        """Write a record to a changelog: to the partition of the task."""
        self._send(topic, key, value, self._task.partition, timestamp)

    def _send(self, topic: str, key: Any, value: Any, partition: Any, timestamp: int | None) -> int:
        record_id, size = self._serdes.value_out(value)
        out = self._serdes.key_out(topic, key)
        arguments = (topic, out, record_id, size, partition, True, NO_HEADERS, timestamp)
        self._producer.send(arguments, partial(self._on_result, topic))
        return record_id

    def _on_result(self, topic: str, answer: Promise) -> None:
        error = answer.exception()
        if error is None:
            partition, offset, *_ = answer.result()
            if offset >= 0 and self._producer.error is None:
                self.offsets[TopicPartition(topic, partition)] = offset
        elif self._producer.error is None and self._open:
            self._producer.error = self._failed(topic, error)

    def _failed(self, topic: str, error: BaseException) -> StreamsError | None:
        """Return what an error of a record means (recordSendError); None: nothing."""
        text = f"sending to {topic} for task {self._task}: {error}"
        if is_fencing(error) or getattr(error, "error", "") == OUT_OF_ORDER:
            return TaskMigrated(text)
        if isinstance(error, TransactionAbortedError):
            return None
        if isinstance(error, KafkaTimeoutError) or _is_retriable(error):
            return TaskCorrupted([self._task], text)  # DefaultProductionExceptionHandler: RETRY
        return StreamsError(text)  # and otherwise: FAIL

    async def flush(self) -> None:
        """Wait for the results of all records of the thread."""
        await self._producer.flush()

    async def close(self, clean: bool, forgets: bool) -> None:
        """End; after an unclean close the thread's transaction is aborted.

        ``forgets``: what was written once is no offset of the state any more (KAFKA-16017).
        """
        if not clean and self._exactly_once:
            await self._producer.abort()
        if forgets:
            self.offsets.clear()


class _Placed:
    """A partitioner that goes by other bytes than the key's (WindowedStreamPartitioner)."""

    def __init__(self, data: bytes) -> None:
        self._hash = positive_hash(data)

    def __call__(self, _key: Any, every: Any, _available: Any) -> int:
        return self._hash % len(every)
