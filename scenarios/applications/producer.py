"""AIOKafkaProducer over the simulated producer: aiokafka's names, the Java client's behaviour."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.client.producer.partitioner import Partitioner
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import ConfigError, ProducerConfig
from kafkasim.model.facts import SendFailed
from kafkasim.model.records import TopicPartition, headers_size
from kafkasim.scenarios.applications.handle import Handle
from kafkasim.scenarios.applications.handled import tell_output
from kafkasim.scenarios.applications.records.batches import BatchBuilder, Serializer, serialized
from kafkasim.scenarios.applications.session import Payload, session
from kafkasim.scenarios.applications.settings import properties, refused
from kafkasim.scenarios.applications.types.errors import (
    IllegalStateError,
    KafkaTimeoutError,
    ProducerFenced,
)
from kafkasim.scenarios.applications.types.structs import InOrder, RecordMetadata, offset_of

METADATA_S = 0.01
"""How often a call that waits for metadata, or for memory, looks at it."""

RAISED = (exceptions.KafkaTimeoutError, exceptions.RecordTooLargeError)
"""What aiokafka's send() raises, where Java's returns a failed future."""


class AIOKafkaProducer:
    """A producer of the running application; settings are keyword arguments (``linger_ms=5``).

    With ``transactional_id`` it begins, commits and aborts transactions. ``partitioner(key, all,
    available)`` returns the partition of a record, from its key and the numbers of all partitions
    and of those with a leader.

    Raises:
        ValueError: an unknown setting, or a value that is not allowed.
    """

    def __init__(
        self,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        partitioner: Partitioner | None = None,
        **settings: Any,
    ) -> None:
        self._session = session()
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        self._partitioner = partitioner
        own = properties(self._session, ProducerConfig, settings, "AIOKafkaProducer")
        found = {**self._session.producer_defaults, **own}
        try:
            self._config = producer_config({"client.id": self._session.node, **found})
        except ConfigError as error:
            raise refused(error, settings, "AIOKafkaProducer") from None
        self._client = Handle(self._session, "producer", self._config)

    async def start(self) -> None:
        """Open the producer; with a transactional id, end what its predecessor has begun.

        Raises:
            KafkaError: the transactional id cannot be initialized within max.block.ms.
        """
        if not self._client.name:
            await self._client.open()
            if self._config.transactional_id is not None:
                await self._client.ask("init_transactions")

    async def stop(self) -> None:
        """Send what is waiting, wait for its results, and close."""
        if self._client.name:
            await self._client.ask("close")
            self._client.name = ""

    async def __aenter__(self) -> AIOKafkaProducer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def send(
        self,
        topic: str,
        value: Any = None,
        key: Any = None,
        partition: int | None = None,
        timestamp_ms: int | None = None,
        headers: Sequence[tuple[str, bytes]] | None = None,
    ) -> asyncio.Future[RecordMetadata]:
        """Put a record into a batch; the future that is returned gets its place in the log.

        ``timestamp_ms`` counts from 1970; without it the record has the time of its host.

        Raises:
            KafkaTimeoutError: no metadata, or no memory, within max.block.ms.
            KafkaError: the record is too large.
            TypeError: the key or value is not bytes; or what their serializers raise.
            ValueError: a negative timestamp.
        """
        if timestamp_ms is not None and timestamp_ms < 0:  # as ProducerRecord
            raise ValueError(f"Invalid timestamp: {timestamp_ms}. It must not be negative.")
        place = self._session
        try:
            key_bytes = serialized("key", key, self._key_serializer)
            value_bytes = serialized("value", value, self._value_serializer)
        except Exception:
            record_id = place.payloads.new(place.node, place.number, Payload(None, ()))
            tell_output(place, topic, record_id)
            place.port.record(SendFailed("", -1, (record_id,), "SERIALIZATION", False, 0, 0))
            raise
        headers = tuple(headers or ())
        record_id = place.payloads.new(place.node, place.number, Payload(value_bytes, headers))
        tell_output(place, topic, record_id)
        size = -1 if value_bytes is None else len(value_bytes)
        taken, done = place.port.call_acked(
            self._client.method("send"), topic, key_bytes, record_id, size,
            self._partitioner if partition is None else partition, True,
            headers_size(headers), timestamp_ms,
        )  # fmt: skip
        try:
            await taken
            refused = done.exception() if done.done() else None
            if isinstance(refused, RAISED):
                raise refused
        except exceptions.KafkaError as error:
            raise self._client.raised(error) from None
        return self._result(topic, done)

    def _result(self, topic: str, done: asyncio.Future[Any]) -> asyncio.Future[Any]:
        """Return the future of a place in a topic, given that of the process."""
        result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

        def told(answer: asyncio.Future[Any]) -> None:
            if result.done():
                return
            error = answer.exception()
            if error is None:
                at, offset, time_ms, by_broker = answer.result()
                tp = TopicPartition(topic, at)
                result.set_result(RecordMetadata(topic, at, tp, offset, time_ms, int(by_broker)))
            else:
                known = isinstance(error, exceptions.KafkaError)
                result.set_exception(self._client.raised(error) if known else error)  # type: ignore[arg-type]
                result.exception()  # nobody has to await it

        done.add_done_callback(told)
        return result

    def create_batch(self) -> BatchBuilder:
        """Return an empty batch, for records that are to travel together."""
        return BatchBuilder(
            self._session, self._config.batch_size, self._key_serializer, self._value_serializer
        )

    async def send_batch(
        self, batch: BatchBuilder, topic: str, *, partition: int
    ) -> asyncio.Future[RecordMetadata | None]:
        """Submit a batch; the future that is returned gets the place of its first record.

        Records that are sent by :meth:`send` may join a batch that was not closed before. An empty
        batch is not sent: its future has None at once.

        Raises:
            KafkaTimeoutError: no metadata, or no memory, within max.block.ms.
            KafkaError: the batch is too large, or no transaction has begun.
        """
        closed, records = batch.closed(), batch.records()
        batch.close()
        now = asyncio.get_running_loop().time
        if not records:
            nothing: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
            nothing.set_result(None)
            return nothing
        for record in records:
            tell_output(self._session, topic, record.value)
        deadline = now() + self._config.max_block_ms / 1000
        while True:
            taken, done = self._session.port.call_acked(
                self._client.method("send_batch"), topic, partition, records, closed
            )
            try:
                await taken
            except exceptions.KafkaError as error:
                waits = isinstance(error, exceptions.KafkaTimeoutError)
                if not waits or now() >= deadline:
                    raise self._client.raised(error) from None
                await asyncio.sleep(METADATA_S)
            else:
                return self._result(topic, done)

    async def send_and_wait(self, topic: str, *arguments: Any, **named: Any) -> RecordMetadata:
        """Send a record and wait for its result; arguments and errors as of :meth:`send`."""
        return await (await self.send(topic, *arguments, **named))

    async def flush(self) -> None:
        """Wait until every record sent before has its result."""
        await self._client.ask("flush")

    async def partitions_for(self, topic: str) -> set[int]:
        """Return the numbers of a topic's partitions.

        Raises:
            KafkaTimeoutError: there is no metadata of it within max.block.ms.
        """
        now = asyncio.get_running_loop().time
        deadline = now() + self._config.max_block_ms / 1000
        while (count := await self._client.ask("partitions_for", topic)) is None:
            if now() >= deadline:
                raise KafkaTimeoutError(f"no metadata of topic {topic}")
            await asyncio.sleep(METADATA_S)
        return InOrder(range(count))

    # Transactions.

    async def begin_transaction(self) -> None:
        """Begin a transaction: what is sent until its end belongs to it."""
        await self._client.ask("begin_transaction")

    async def commit_transaction(self) -> None:
        """Commit, once every record of the transaction is acknowledged.

        Raises:
            ProducerFenced: another producer has the transactional id now.
            KafkaError: a send has failed; the transaction can only be aborted.
        """
        await self._client.ask("commit_transaction")

    async def abort_transaction(self) -> None:
        """Abort: readers with isolation_level read_committed get none of its records."""
        await self._client.ask("abort_transaction")

    async def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, Any], group_id: str
    ) -> None:
        """Have a group's offsets committed with the transaction, and only then.

        ``offsets`` are as for a consumer's commit. As in Java, the group checks the generation of
        this application's consumer (KIP-447).
        """
        place = self._session
        if group_id != place.group or not place.consumers:
            raise IllegalStateError(f"no consumer of group {group_id!r} is started here")
        for note in place.notes:
            note()  # unless the application says itself what it has processed
        group = await place.port.call(f"{place.consumers[-1]}.group_metadata")
        found = {TopicPartition(*tp): (offset_of(at), -1) for tp, at in offsets.items()}
        await self._client.ask("send_offsets_to_transaction", found, group)

    @contextlib.asynccontextmanager
    async def transaction(self) -> AsyncIterator[None]:
        """Commit what happens inside, or abort it if it raises."""
        await self.begin_transaction()
        try:
            yield
        except ProducerFenced:
            raise
        except Exception:
            await self.abort_transaction()
            raise
        await self.commit_transaction()
