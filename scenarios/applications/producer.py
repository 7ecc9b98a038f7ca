"""AIOKafkaProducer over the simulated producer: aiokafka's names, the Java client's behaviour."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import ConfigError
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.session import Payload, session
from kafkasim.scenarios.applications.settings import properties
from kafkasim.scenarios.applications.structs import (
    IllegalStateError,
    RecordMetadata,
    translated,
)

Serializer = Callable[[Any], bytes]


class AIOKafkaProducer:
    """A producer of the running application; settings are keyword arguments (``linger_ms=5``).

    Left out: transactions, custom partitioners (give ``partition``), partitions_for.

    Raises:
        ValueError: an unknown setting, or a value that is not allowed.
    """

    def __init__(
        self,
        *,
        key_serializer: Serializer | None = None,
        value_serializer: Serializer | None = None,
        **settings: Any,
    ) -> None:
        self._session = session()
        self._key_serializer = key_serializer
        self._value_serializer = value_serializer
        found = {**self._session.producer_defaults, **properties(settings)}
        try:
            self._config = producer_config({"client.id": self._session.node, **found})
        except ConfigError as error:
            raise ValueError(f"AIOKafkaProducer: {error}") from None
        self._name = ""

    async def start(self) -> None:
        """Open the producer."""
        if not self._name:
            self._name = self._session.client_name("producer")
            await self._session.port.call("open", self._name, self._config)

    async def stop(self) -> None:
        """Send what is waiting, wait for its results, and close."""
        if self._name:
            await self._call("close")
            self._name = ""

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

        Raises:
            KafkaTimeoutError: no metadata, or no memory, within max.block.ms.
            KafkaError: the record is too large.
            ValueError: a timestamp: records carry the host's time.
        """
        if timestamp_ms is not None:
            raise ValueError("timestamp_ms: records carry the time of their host")
        key_bytes = _bytes("key", key, self._key_serializer)
        value_bytes = _bytes("value", value, self._value_serializer)
        place = self._session
        payload = Payload(value_bytes, tuple(headers or ()))
        record_id = place.payloads.new(place.node, place.number, payload)
        size = -1 if value_bytes is None else len(value_bytes)
        taken, done = place.port.call_acked(
            f"{self._opened()}.send", topic, key_bytes, record_id, size, partition, True
        )
        try:
            await taken
        except exceptions.KafkaError as error:
            raise translated(error) from None
        result: asyncio.Future[RecordMetadata] = asyncio.get_running_loop().create_future()

        def told(answer: asyncio.Future[Any]) -> None:
            if result.done():
                return
            error = answer.exception()
            if error is None:
                at, offset = answer.result()
                tp = TopicPartition(topic, at)
                result.set_result(RecordMetadata(topic, at, tp, offset, None, 0))
            else:
                known = isinstance(error, exceptions.KafkaError)
                result.set_exception(translated(error) if known else error)  # type: ignore[arg-type]
                result.exception()  # nobody has to await it

        done.add_done_callback(told)
        return result

    async def send_and_wait(self, topic: str, *arguments: Any, **named: Any) -> RecordMetadata:
        """Send a record and wait for its result; arguments and errors as of :meth:`send`."""
        return await (await self.send(topic, *arguments, **named))

    async def flush(self) -> None:
        """Wait until every record sent before has its result."""
        await self._call("flush")

    async def _call(self, method: str, *arguments: Any) -> Any:
        try:
            return await self._session.port.call(f"{self._opened()}.{method}", *arguments)
        except exceptions.KafkaError as error:
            raise translated(error) from None

    def _opened(self) -> str:
        if not self._name:
            raise IllegalStateError("the producer is not started: await producer.start()")
        return self._name


def _bytes(what: str, given: Any, serializer: Serializer | None) -> bytes | None:
    data = serializer(given) if serializer is not None and given is not None else given
    if data is not None and not isinstance(data, bytes | bytearray):
        raise TypeError(f"{what}: bytes are needed, not {type(data).__name__}; give a serializer")
    return None if data is None else bytes(data)
