"""AIOKafkaConsumer over the simulated consumer: aiokafka's names, the Java client's behaviour.

Records are handed out one by one or in lists from what one poll() of the Java consumer returned; it
polls again once they are all handed out. So auto-commit, in poll(), never commits a record that the
application has not got, and an application that does not come back for max.poll.interval.ms loses
its partitions.

What an application *processed* is known to it alone. With ``from kafkasim import processed`` it
says so itself, where the effect of a record takes place. Without that, the records that it got
count as processed when it asks for more or commits: the strategy "commit, then process" is then
not told from "process, then commit".
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.handle import CONSUMER_WITHOUT, Handle, Partial
from kafkasim.scenarios.applications.reading import Buffer, Deserializer, record_processed
from kafkasim.scenarios.applications.session import session
from kafkasim.scenarios.applications.settings import config_of, properties
from kafkasim.scenarios.applications.types.errors import (
    ConsumerStoppedError,
    IllegalStateError,
    KafkaError,
    RecordDeserializationError,
    translated,
)
from kafkasim.scenarios.applications.types.structs import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    InOrder,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    commit_of,
)

POLL_MS = 100
"""How long one poll() waits: as long may a commit of another task have to wait for it."""

Partitions = Iterable[TopicPartition]


class AIOKafkaConsumer(Partial):
    """A consumer of the running application; settings are keyword arguments.

    ``group_id`` is the group of the workload in whose place the application runs. ``wakeup`` and
    ``commit_async`` are the Java consumer's, which aiokafka does without.

    Raises:
        ValueError: an unknown setting, a value that is not allowed, or another group.
    """

    left_out = CONSUMER_WITHOUT

    def __init__(
        self,
        *topics: str,
        key_deserializer: Deserializer | None = None,
        value_deserializer: Deserializer | None = None,
        **settings: Any,
    ) -> None:
        self._session = place = session()
        asked = settings.pop("group_id", None)
        if asked is not None and asked != place.group:
            raise ValueError(
                f"group_id {asked!r}: the workload that the application runs for has the group"
                f" {place.group!r}; leave group_id out, or set the workload's group"
            )
        found = {"client.id": place.node, **place.defaults, **properties(settings)}
        found["group.id"] = place.group
        self._config = config_of(ConsumerConfig, found, "AIOKafkaConsumer")
        self._topics = topics
        self._pattern: str | None = None
        self._listener: ConsumerRebalanceListener | None = None
        self._port = place.port
        self._client = Handle(place, "consumer", self._config)
        self._polling: asyncio.Future[Any] | None = None  # the poll() that is outstanding
        self._buffer = Buffer(place, key_deserializer, value_deserializer)
        self._owned: dict[TopicPartition, None] = {}
        self._telling: asyncio.Task[Any] | None = None  # the task whose listener runs
        self._lock = asyncio.Lock()  # the Java consumer serves one call at a time
        self._stopped = False

    # The life of a consumer.

    async def start(self) -> None:
        """Open the consumer and subscribe to the topics that it was made with."""
        if self._client.name:
            return
        await self._client.open()
        self._stopped = False
        self._session.consumers.append(self._client.name)
        if self._topics or self._pattern is not None:
            method, arguments = self._subscription
            await self._call(method, *arguments)

    async def stop(self) -> None:
        """Commit what was handed out if auto-commit is on, leave the group, and close.

        The listener is told of the partitions first, and may commit.
        """
        self._stopped = True
        if self._client.name:
            self._note_processed()
            await self._tell_of_close()
            self._push_back()
            await self._call("close")
            self._session.consumers.remove(self._client.name)
            self._client.name = ""

    async def __aenter__(self) -> AIOKafkaConsumer:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def subscribe(
        self,
        topics: Iterable[str] = (),
        pattern: str | None = None,
        listener: ConsumerRebalanceListener | None = None,
    ) -> None:
        """Subscribe as a member of the group to topics, or to all whose names match a pattern."""
        self._topics, self._pattern, self._listener = tuple(topics), pattern, listener
        if self._client.name:
            self._port.post(self._client.method(self._subscription[0]), *self._subscription[1])

    @property
    def _subscription(self) -> tuple[str, tuple[Any, ...]]:
        if self._pattern is not None:
            return "subscribe_pattern", (self._pattern,)
        return "subscribe", (self._topics,)

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions, whatever the group assigns."""
        self._owned = dict.fromkeys(partitions)
        self._port.post(self._client.method("assign"), tuple(self._owned))

    def subscription(self) -> set[str]:
        """Return the topics that are subscribed to; with a pattern, those it has partitions of."""
        return InOrder(self._topics or [tp.topic for tp in self._owned])

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the consumer has."""
        return InOrder(self._owned)

    # Records.

    def __aiter__(self) -> AIOKafkaConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        try:
            return await self.getone()
        except ConsumerStoppedError:
            raise StopAsyncIteration from None

    async def getone(self, *partitions: TopicPartition) -> ConsumerRecord:
        """Return the next record, of some partitions or of all; wait until there is one.

        Raises:
            RecordDeserializationError: the record cannot be read.
            ConsumerStoppedError: the consumer is stopped, maybe by another task.
        """
        self._note_processed()
        wanted = dict.fromkeys(partitions)
        while not self._buffer.ready(wanted):
            await self._fill(POLL_MS, wanted)
        return self._buffer.take(wanted)

    async def getmany(
        self, *partitions: TopicPartition, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition; none if there is none within ``timeout_ms``.

        Raises:
            RecordDeserializationError: the next record cannot be read.
            ConsumerStoppedError: the consumer is stopped, maybe by another task.
        """
        self._note_processed()
        wanted = dict.fromkeys(partitions)
        deadline = self._port.now_us + timeout_ms * 1000
        while not self._buffer.ready(wanted):
            left_ms = max(0, deadline - self._port.now_us) // 1000
            await self._fill(min(POLL_MS, left_ms), wanted)
            if self._port.now_us >= deadline:
                break
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        ready = self._buffer.ready(wanted)
        for _ in range(min(ready, max_records or ready)):
            try:
                record = self._buffer.take(wanted)
            except RecordDeserializationError:
                if found:
                    break  # what is before it first; the next call raises
                raise
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    async def _fill(self, timeout_ms: int, wanted: dict[TopicPartition, None]) -> None:
        """Poll once, with the listener's methods where the Java consumer calls them."""
        async with self._lock:
            if self._stopped:
                raise ConsumerStoppedError
            others: list[TopicPartition] = []
            if self._polling is None:
                if self._buffer.ready(wanted):
                    return  # another task has polled meanwhile
                self._push_back()
                paused = self._buffer.paused
                others = [tp for tp in self._owned if wanted and not (tp in wanted or tp in paused)]
                self._port.post(self._client.method("pause"), others)
                self._polling = self._port.call(self._client.method("poll"), timeout_ms)
            try:
                await self._finish_poll()
            finally:
                for tp in others:
                    if tp not in self._buffer.paused and self._client.name:
                        self._port.post(self._client.method("resume"), (tp,))

    def _push_back(self) -> None:
        """Have the consumer return again what the application has not got of the last poll().

        So neither auto-commit nor a rebalance passes over records of paused partitions.
        """
        for tp, offset in self._buffer.firsts().items():
            self._port.post(self._client.method("seek"), tp, offset)
        self._buffer.drop()

    async def _finish_poll(self) -> None:
        """Wait for the outstanding poll(); if the task is cancelled, the poll goes on."""
        while self._polling is not None:
            poll = self._polling
            try:
                kind, found = await asyncio.shield(poll)
            except exceptions.KafkaError as error:
                self._polling = None
                raise self._client.raised(error) from None
            self._polling = None
            if kind == "records":
                for tp, records in found.items():
                    self._buffer.add(tp, records)
                return
            try:
                await self._tell_listener(kind, found)
            finally:
                self._polling = self._port.call(f"{self._client.name}.continue")

    async def _tell_listener(self, kind: str, partitions: tuple[TopicPartition, ...]) -> None:
        listener = self._listener
        self._telling = asyncio.current_task()  # the listener may commit inside the poll
        if kind == "assigned":
            self._owned.update(dict.fromkeys(partitions))
            told = listener.on_partitions_assigned(InOrder(partitions)) if listener else None
        else:
            told = listener.on_partitions_revoked(InOrder(partitions)) if listener else None
        try:
            if inspect.isawaitable(told):
                await told
        finally:
            self._telling = None
        if kind != "assigned":
            for tp in partitions:
                self._owned.pop(tp, None)
                self._buffer.lose(tp)

    async def _tell_of_close(self) -> None:
        """Tell the listener what the consumer gives up by its close (ConsumerCoordinator.close)."""
        if self._listener is None or not self._owned or not (self._topics or self._pattern):
            return
        async with self._lock:
            await self._finish_poll()
        await self._tell_listener("revoked", tuple(self._owned))

    # Offsets.

    async def commit(self, offsets: Mapping[TopicPartition, Any] | None = None) -> None:
        """Commit offsets, by default those after the records that the application has got.

        ``offsets`` maps a partition to an offset or to (offset, metadata).

        Raises:
            CommitFailedError: the group has gone on without this member.
            KafkaError: the commit failed.
        """
        self._note_processed()
        wanted = self._wanted(offsets)
        if wanted:
            await self._call("commit_sync", wanted)

    async def commit_async(
        self,
        offsets: Mapping[TopicPartition, Any] | None = None,
        callback: Callable[[dict[TopicPartition, Any], KafkaError | None], Any] | None = None,
    ) -> None:
        """Commit once, without waiting for the answer (Java: commitAsync).

        ``callback(offsets, error)`` is called in a later poll or commit, as Java calls it. Its
        error is a RetriableCommitError if the commit may be tried again.
        """
        self._note_processed()
        wanted = self._wanted(offsets)
        async with self._lock:
            await self._finish_poll()
            taken, done = self._port.call_acked(
                self._client.method("commit_async"), wanted, callback is not None
            )
            await taken

        def told(answer: asyncio.Future[Any]) -> None:
            if callback is None or answer.cancelled():
                return
            error = answer.exception()
            known = isinstance(error, exceptions.KafkaError)
            callback(wanted, translated(error) if known else None)  # type: ignore[arg-type]

        done.add_done_callback(told)

    def _wanted(self, offsets: Mapping[TopicPartition, Any] | None) -> dict[TopicPartition, Any]:
        wanted = self._buffer.consumed if offsets is None else offsets
        return {TopicPartition(*tp): commit_of(at) for tp, at in wanted.items()}

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the offset that the group has committed, None without one."""
        found: dict[TopicPartition, int | None] = await self._call("committed", (partition,))
        return found[TopicPartition(*partition)]

    async def committed_metadata(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return what the group has committed, with its metadata (Java: committed)."""
        found = await self._call("committed", (partition,), True)
        at = found[TopicPartition(*partition)]
        return None if at is None else OffsetAndMetadata(*at)

    async def position(self, partition: TopicPartition) -> int | None:
        """Return the offset of the next record that the application gets."""
        tp = TopicPartition(*partition)
        found: int | None = self._buffer.position(tp)
        return await self._call("position", tp) if found is None else found

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``; what was fetched of the partition is dropped.

        Raises:
            IllegalStateError: the consumer has not this partition.
        """
        (tp,) = self._assigned((partition,))
        if offset < 0:
            raise ValueError(f"seek: offset {offset} of {tp}: it is negative")
        self._buffer.forget((tp,))
        self._port.post(self._client.method("seek"), tp, offset)

    def _assigned(self, partitions: Partitions) -> tuple[TopicPartition, ...]:
        found = tuple([TopicPartition(*tp) for tp in partitions])
        for tp in found:
            if tp not in self._owned:
                raise IllegalStateError(f"no current assignment for partition {tuple(tp)}")
        return found

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offsets of partitions, by default of all."""
        await self._seek_to("seek_to_beginning", partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the last offsets of partitions, by default of all."""
        await self._seek_to("seek_to_end", partitions)

    async def _seek_to(self, method: str, partitions: Partitions) -> None:
        wanted = self._assigned(partitions) or tuple(self._owned)
        await self._call(method, wanted)
        self._buffer.forget(wanted)

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Read on from what the group has committed, where it has; return that by partition."""
        found: dict[TopicPartition, int | None]
        found = await self._call("committed", self._assigned(partitions) or tuple(self._owned))
        for tp, offset in found.items():
            if offset is not None:
                self.seek(tp, offset)
        return found

    async def beginning_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return the first offset of each partition."""
        found: dict[TopicPartition, int] = await self._call("beginning_offsets", tuple(partitions))
        return found

    async def end_offsets(self, partitions: Partitions) -> dict[TopicPartition, int]:
        """Return the offset of the next record of each partition that this consumer may read.

        That is the high watermark, and with read_committed the last stable offset.
        """
        found: dict[TopicPartition, int] = await self._call("end_offsets", tuple(partitions))
        return found

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at a time in milliseconds, or later."""
        negative = [tuple(tp) for tp, at in timestamps.items() if at < 0]
        if negative:
            raise ValueError(f"offsets_for_times: the time of {negative[0]} is negative")
        found = await self._call("offsets_for_times", dict(timestamps))
        return {tp: None if at is None else OffsetAndTimestamp(*at) for tp, at in found.items()}

    # What is fetched.

    def pause(self, *partitions: TopicPartition) -> None:
        """Get no records of partitions until they are resumed; the member keeps them."""
        found = self._assigned(partitions)
        self._buffer.paused.update(dict.fromkeys(found))
        self._port.post(self._client.method("pause"), found)

    def resume(self, *partitions: TopicPartition) -> None:
        """Get records of partitions again."""
        found = self._assigned(partitions)
        for tp in found:
            self._buffer.paused.pop(tp, None)
        self._port.post(self._client.method("resume"), found)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return InOrder(self._buffer.paused)

    def wakeup(self) -> None:
        """Have the poll under way, or the next one, raise WakeupError (Java: wakeup)."""
        self._port.post(self._client.method("wakeup"))

    # What was processed.

    def _note_processed(self) -> None:
        """Take what was handed out as processed, unless the application says so itself."""
        if not self._session.tells:
            record_processed(self._session, self._buffer.handed)
        self._buffer.handed.clear()

    async def _call(self, method: str, *arguments: Any) -> Any:
        if self._telling is not None and self._telling is asyncio.current_task():
            return await self._client.ask(method, *arguments)
        async with self._lock:
            await self._finish_poll()
            return await self._client.ask(method, *arguments)
