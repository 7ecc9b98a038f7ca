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
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.facts import Processed
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.handle import Handle
from kafkasim.scenarios.applications.session import Session, session
from kafkasim.scenarios.applications.settings import config_of, properties
from kafkasim.scenarios.applications.types.errors import (
    KafkaError,
    RecordDeserializationError,
    translated,
)
from kafkasim.scenarios.applications.types.structs import (
    ConsumerRebalanceListener,
    ConsumerRecord,
    OffsetAndMetadata,
    OffsetAndTimestamp,
    commit_of,
)

POLL_MS = 100
"""How long one poll() waits: as long may a commit of another task have to wait for it."""

Deserializer = Callable[[bytes], Any]
Partitions = Iterable[TopicPartition]


class AIOKafkaConsumer:
    """A consumer of the running application; settings are keyword arguments.

    ``group_id`` is the group of the workload in whose place the application runs. ``wakeup`` and
    ``commit_async`` are the Java consumer's, which aiokafka does without.

    Raises:
        ValueError: an unknown setting, a value that is not allowed, or another group.
    """

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
        self._paused: dict[TopicPartition, None] = {}
        self._listener: ConsumerRebalanceListener | None = None
        self._deserializers = key_deserializer, value_deserializer
        self._port = place.port
        self._client = Handle(place, "consumer", self._config)
        self._polling: asyncio.Future[Any] | None = None  # the poll() that is outstanding
        self._buffer: deque[ConsumerRecord] = deque()
        self._handed: list[ConsumerRecord] = []  # got by the application, not processed yet
        self._consumed: dict[TopicPartition, int] = {}  # the offset after the last one handed out
        self._owned: dict[TopicPartition, None] = {}
        self._telling: asyncio.Task[Any] | None = None  # the task whose listener runs
        self._lock = asyncio.Lock()  # the Java consumer serves one call at a time

    # The life of a consumer.

    async def start(self) -> None:
        """Open the consumer and subscribe to the topics that it was made with."""
        if self._client.name:
            return
        await self._client.open()
        self._session.consumers.append(self._client.name)
        if self._topics or self._pattern is not None:
            method, arguments = self._subscription
            await self._call(method, *arguments)

    async def stop(self) -> None:
        """Commit what was handed out if auto-commit is on, leave the group, and close.

        The listener is told of the partitions first, and may commit.
        """
        if self._client.name:
            self._note_processed()
            await self._tell_of_close()
            first: dict[TopicPartition, int] = {}
            for record in self._buffer:
                first.setdefault(TopicPartition(record.topic, record.partition), record.offset)
            for tp, offset in first.items():
                self.seek(tp, offset)
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

    def assignment(self) -> set[TopicPartition]:
        """Return the partitions that the consumer has."""
        return set(self._owned)

    # Records.

    def __aiter__(self) -> AIOKafkaConsumer:
        return self

    async def __anext__(self) -> ConsumerRecord:
        return await self.getone()

    async def getone(self) -> ConsumerRecord:
        """Return the next record; wait until there is one."""
        self._note_processed()
        while not self._ready():
            await self._fill(POLL_MS)
        return self._hand_out(self._take())

    async def getmany(
        self, timeout_ms: int = 0, max_records: int | None = None
    ) -> dict[TopicPartition, list[ConsumerRecord]]:
        """Return the next records by partition; none if there is none within ``timeout_ms``.

        Raises:
            RecordDeserializationError: the next record cannot be read.
        """
        self._note_processed()
        deadline = self._port.now_us + timeout_ms * 1000
        while not self._ready():
            left_ms = max(0, deadline - self._port.now_us) // 1000
            await self._fill(min(POLL_MS, left_ms))
            if self._port.now_us >= deadline:
                break
        found: dict[TopicPartition, list[ConsumerRecord]] = {}
        for _ in range(min(self._ready(), max_records or self._ready())):
            try:
                record = self._hand_out(self._take())
            except RecordDeserializationError:
                if found:
                    break  # what is before it first; the next call raises
                raise
            found.setdefault(TopicPartition(record.topic, record.partition), []).append(record)
        return found

    def _ready(self) -> int:
        """Return how many records may be handed out now."""
        if not self._paused:
            return len(self._buffer)
        return sum([(each.topic, each.partition) not in self._paused for each in self._buffer])

    def _take(self) -> ConsumerRecord:
        """Take the next record that is not of a paused partition."""
        for place, record in enumerate(self._buffer):
            if (record.topic, record.partition) not in self._paused:
                read = self._deserialized(record)
                del self._buffer[place]
                return read
        raise AssertionError("no record is ready")

    def _hand_out(self, record: ConsumerRecord) -> ConsumerRecord:
        self._consumed[TopicPartition(record.topic, record.partition)] = record.offset + 1
        self._handed.append(record)
        return record

    async def _fill(self, timeout_ms: int) -> None:
        """Poll once, with the listener's methods where the Java consumer calls them."""
        async with self._lock:
            if self._polling is None:
                self._polling = self._port.call(self._client.method("poll"), timeout_ms)
            await self._finish_poll()

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
                    self._buffer.extend([self._record(tp, *record) for record in records])
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
            told = listener.on_partitions_assigned(set(partitions)) if listener else None
        else:
            told = listener.on_partitions_revoked(set(partitions)) if listener else None
        try:
            if inspect.isawaitable(told):
                await told
        finally:
            self._telling = None
        if kind != "assigned":
            for tp in partitions:
                self._owned.pop(tp, None)
                self._consumed.pop(tp, None)
                self._paused.pop(tp, None)

    async def _tell_of_close(self) -> None:
        """Tell the listener what the consumer gives up by its close (ConsumerCoordinator.close)."""
        if self._listener is None or not self._owned or not (self._topics or self._pattern):
            return
        async with self._lock:
            await self._finish_poll()
        await self._tell_listener("revoked", tuple(self._owned))

    def _record(
        self, tp: TopicPartition, offset: int, record_id: int, key: Any, timestamp_ms: int
    ) -> ConsumerRecord:
        payload = self._session.payloads.of(record_id)
        key = key.encode() if isinstance(key, str) else key
        return ConsumerRecord(
            tp.topic, tp.partition, offset, timestamp_ms, 0,
            key, payload.value, None, -1 if key is None else len(key),
            -1 if payload.value is None else len(payload.value), payload.headers,
        )  # fmt: skip

    def _deserialized(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return a record as its deserializers read it.

        Raises:
            RecordDeserializationError: one of them failed; the record is the next one still.
        """
        of_key, of_value = self._deserializers
        if of_key is None and of_value is None:
            return record
        key, value = record.key, record.value
        try:
            return replace(
                record,
                key=key if of_key is None or key is None else of_key(key),
                value=value if of_value is None or value is None else of_value(value),
            )
        except Exception as error:
            tp = TopicPartition(record.topic, record.partition)
            raise RecordDeserializationError(tp, record.offset) from error

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
        wanted = self._consumed if offsets is None else offsets
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
        if tp in self._consumed:
            return self._consumed[tp]
        first = [r.offset for r in self._buffer if (r.topic, r.partition) == tp]
        found: int | None = first[0] if first else await self._call("position", tp)
        return found

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Read on from ``offset``; what was fetched of the partition is dropped."""
        tp = TopicPartition(*partition)
        self._drop((tp,))
        self._port.post(self._client.method("seek"), tp, offset)

    def _drop(self, partitions: Partitions) -> None:
        """Forget what was fetched of partitions, and where the application stands in them."""
        gone = dict.fromkeys(partitions)
        kept = [each for each in self._buffer if (each.topic, each.partition) not in gone]
        self._buffer = deque(kept)
        for tp in gone:
            self._consumed.pop(tp, None)

    async def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        """Read on from the first offsets of partitions, by default of all."""
        await self._seek_to("seek_to_beginning", partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> None:
        """Read on from the last offsets of partitions, by default of all."""
        await self._seek_to("seek_to_end", partitions)

    async def _seek_to(self, method: str, partitions: Partitions) -> None:
        wanted = tuple([TopicPartition(*tp) for tp in partitions]) or tuple(self._owned)
        await self._call(method, wanted)
        self._drop(wanted)

    async def offsets_for_times(
        self, timestamps: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, OffsetAndTimestamp | None]:
        """Return the first record of each partition at a time in milliseconds, or later."""
        found = await self._call("offsets_for_times", dict(timestamps))
        return {tp: None if at is None else OffsetAndTimestamp(*at) for tp, at in found.items()}

    # What is fetched.

    def pause(self, *partitions: TopicPartition) -> None:
        """Get no records of partitions until they are resumed; the member keeps them."""
        self._paused.update(dict.fromkeys([TopicPartition(*tp) for tp in partitions]))
        self._port.post(self._client.method("pause"), partitions)

    def resume(self, *partitions: TopicPartition) -> None:
        """Get records of partitions again."""
        for tp in partitions:
            self._paused.pop(TopicPartition(*tp), None)
        self._port.post(self._client.method("resume"), partitions)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return set(self._paused)

    def wakeup(self) -> None:
        """Have the poll under way, or the next one, raise WakeupError (Java: wakeup)."""
        self._port.post(self._client.method("wakeup"))

    # What was processed.

    def _note_processed(self) -> None:
        """Take what was handed out as processed, unless the application says so itself."""
        if not self._session.tells:
            record_processed(self._session, self._handed)
        self._handed.clear()

    async def _call(self, method: str, *arguments: Any) -> Any:
        if self._telling is not None and self._telling is asyncio.current_task():
            return await self._client.ask(method, *arguments)
        async with self._lock:
            await self._finish_poll()
            return await self._client.ask(method, *arguments)


def record_processed(place: Session, records: Iterable[ConsumerRecord]) -> None:
    """Write the fact Processed, once for each run of following offsets."""
    runs: list[list[Any]] = []
    for record in records:
        tp = (record.topic, record.partition)
        if runs and runs[-1][0] == tp and runs[-1][2] == record.offset:
            runs[-1][2] += 1
        else:
            runs.append([tp, record.offset, record.offset + 1])
    for (topic, partition), first, end in runs:
        topic_id = place.topic_ids.get(topic, topic)
        place.port.record(Processed(place.group, place.node, topic_id, partition, first, end))
