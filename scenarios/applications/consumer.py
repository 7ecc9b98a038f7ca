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
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.facts import CommitChosen
from kafkasim.model.records import COORDINATOR_TOPICS, TopicPartition
from kafkasim.scenarios.applications.consuming.polling import Polling, Subscription
from kafkasim.scenarios.applications.consuming.reading import Buffer, Deserializer, assume_processed
from kafkasim.scenarios.applications.handle import Handle
from kafkasim.scenarios.applications.session import session
from kafkasim.scenarios.applications.settings import consumer_config
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
        self._config = consumer_config(place, settings)
        self._subscription = Subscription(topics)
        self._port = place.port
        self._client = Handle(place, "consumer", self._config)
        self._buffer = Buffer(place, key_deserializer, value_deserializer)
        self._polling = Polling(place, self._client, self._buffer)
        self._call, self._owned = self._polling.call, self._polling.owned
        place.notes.append(self._note_processed)

    # The life of a consumer.

    async def start(self) -> None:
        """Open the consumer; if it is subscribed, join the group and wait for an assignment.

        Raises:
            KafkaError: the group does not take it.
        """
        if self._client.name:
            return
        await self._client.open()
        self._polling.stopped = False
        self._session.consumers.append(self._client.name)
        if self._subscription:
            self._subscription.tell(self._polling)
            while not self._polling.assigned:
                await self._fill(POLL_MS, {})
        elif self._owned:
            self._polling.post("assign", tuple(self._owned))

    async def stop(self) -> None:
        """Commit what was handed out if auto-commit is on, leave the group, and close.

        The listener is told of the partitions first, and may commit.
        """
        self._polling.stopped = True
        if self._client.name:
            self._note_processed()
            if self._subscription:
                await self._polling.tell_of_close()
            self._polling.push_back()
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
        """Subscribe as a member of the group to topics, or to all whose names match a pattern.

        Raises:
            TypeError: there are not either topics, in a list, or a pattern.
            IllegalStateError: partitions are assigned by hand.
        """
        wanted = Subscription.checked(topics, pattern)
        if self._owned and not self._subscription:
            raise IllegalStateError("subscribe: partitions are assigned; unsubscribe() first")
        self._subscription, self._polling.listener = wanted, listener
        if self._client.name:
            wanted.tell(self._polling)

    def unsubscribe(self) -> None:
        """Give up all topics and partitions, and leave the group; a static member stays in it.

        As with aiokafka nothing is committed, and the rebalance listener is not told.
        """
        self._note_processed()
        self._subscription = Subscription()
        self._polling.unsubscribe()

    def assign(self, partitions: Partitions) -> None:
        """Read these partitions, whatever the group assigns.

        Raises:
            IllegalStateError: the consumer is subscribed to topics.
        """
        if self._subscription:
            raise IllegalStateError("assign: topics are subscribed to; unsubscribe() first")
        self._owned.clear()
        self._owned.update(dict.fromkeys([TopicPartition(*tp) for tp in partitions]))
        if self._client.name:
            self._polling.post("assign", tuple(self._owned))

    def subscription(self) -> set[str]:
        """Return the topics that are subscribed to; with a pattern, those it has partitions of."""
        return InOrder(self._subscription.topics or [tp.topic for tp in self._owned])

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
            if not left_ms or self._port.now_us >= deadline:
                break  # a poll of less than a millisecond does not wait, and takes no time
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
        """Poll once; wait as long if there is no subscription, where Java's poll() is refused."""
        if self._subscription or self._owned:
            await self._polling.fill(timeout_ms, wanted)
        elif self._polling.stopped:
            raise ConsumerStoppedError
        else:
            await asyncio.sleep(timeout_ms / 1000)

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
        taken, done = await self._polling.call_acked("commit_async", wanted, callback is not None)
        await taken

        def told(answer: asyncio.Future[Any]) -> None:
            if callback is None or answer.cancelled():
                return
            error = answer.exception()
            known = isinstance(error, exceptions.KafkaError)
            callback(wanted, translated(error) if known else None)  # type: ignore[arg-type]

        done.add_done_callback(told)

    def _wanted(self, offsets: Mapping[TopicPartition, Any] | None) -> dict[TopicPartition, Any]:
        if offsets is None:
            return dict(self._buffer.consumed)
        wanted = {TopicPartition(*tp): commit_of(at) for tp, at in offsets.items()}
        place, stands = self._session, self._buffer.consumed
        for tp, at in wanted.items():
            offset = at[0] if isinstance(at, tuple) else at
            if offset < stands.get(tp, offset + 1):
                topic_id = place.topic_ids.get(tp.topic, tp.topic)
                place.port.record(CommitChosen(place.group, topic_id, tp.partition, offset))
        return wanted

    async def committed(self, partition: TopicPartition) -> int | None:
        """Return the offset that the group has committed, None without one."""
        found: dict[TopicPartition, int | None] = await self._call("committed", (partition,))
        return found[TopicPartition(*partition)]

    async def committed_metadata(self, partition: TopicPartition) -> OffsetAndMetadata | None:
        """Return what the group has committed, with its metadata (Java: committed)."""
        at = (await self._call("committed", (partition,), True))[TopicPartition(*partition)]
        return None if at is None else OffsetAndMetadata(*at)

    async def position(self, partition: TopicPartition) -> int:
        """Return the offset of the next record that the application gets; wait until it is known.

        Raises:
            IllegalStateError: the consumer has not this partition.
            KafkaTimeoutError: it is not known within default.api.timeout.ms.
        """
        (tp,) = self._assigned((partition,))
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
        self._polling.post("seek", tp, offset)

    def _assigned(self, partitions: Partitions) -> tuple[TopicPartition, ...]:
        found = tuple([TopicPartition(*tp) for tp in partitions])
        for tp in found:
            if tp not in self._owned:
                raise IllegalStateError(f"no current assignment for partition {tuple(tp)}")
        return found

    async def seek_to_beginning(self, *partitions: TopicPartition) -> bool:
        """Read on from the first offsets of partitions, by default of all; return True.

        Raises:
            IllegalStateError: the consumer has not these partitions, or none at all.
        """
        return await self._seek_to("seek_to_beginning", partitions)

    async def seek_to_end(self, *partitions: TopicPartition) -> bool:
        """Read on from the last offsets of partitions, by default of all; return True.

        Errors are those of :meth:`seek_to_beginning`.
        """
        return await self._seek_to("seek_to_end", partitions)

    async def _seek_to(self, method: str, partitions: Partitions) -> bool:
        wanted = self._assigned_or_all(partitions)
        await self._call(method, wanted)
        self._buffer.forget(wanted)
        return True

    def _assigned_or_all(self, partitions: Partitions) -> tuple[TopicPartition, ...]:
        if not partitions and not self._owned:
            raise IllegalStateError("no partitions are currently assigned")
        return self._assigned(partitions) or tuple(self._owned)

    async def seek_to_committed(
        self, *partitions: TopicPartition
    ) -> dict[TopicPartition, int | None]:
        """Read on from what the group has committed, where it has; return that by partition.

        Errors are those of :meth:`seek_to_beginning`.
        """
        found: dict[TopicPartition, int | None]
        found = await self._call("committed", self._assigned_or_all(partitions))
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

    # What is known of topics and partitions.

    async def topics(self) -> set[str]:
        """Return the names of all topics but internal ones."""
        found: list[str] = await self._call("topics")
        return InOrder([name for name in found if name not in COORDINATOR_TOPICS])

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions; None if the consumer has no metadata of it.

        It has metadata of the topics that it reads.
        """
        count = self._client.know("partitions_for", topic)
        return None if count is None else InOrder(range(count))

    def highwater(self, partition: TopicPartition) -> int | None:
        """Return the high watermark as the last fetch told it, None before.

        Raises:
            IllegalStateError: the consumer has not this partition.
        """
        return self._fetched(partition, 0)

    def last_stable_offset(self, partition: TopicPartition) -> int | None:
        """Return the last stable offset as the last fetch told it, None before.

        With read_uncommitted it is −1. Errors are those of :meth:`highwater`.
        """
        found = self._fetched(partition, 1)
        committed_only = self._config.isolation_level == "read_committed"
        return found if committed_only or found is None else -1

    def last_poll_timestamp(self, partition: TopicPartition) -> int | None:
        """Return when a fetch last told of a partition, in ms since 1970, None before.

        Errors are those of :meth:`highwater`.
        """
        at = self._fetched(partition, 2)
        return None if at is None else (at + self._port.wall_us - self._port.now_us) // 1000

    def _fetched(self, partition: TopicPartition, which: int) -> int | None:
        (tp,) = self._assigned((partition,))
        found = self._client.know("fetched", tp)
        return None if found is None or found[which] < 0 else found[which]

    # What is fetched.

    def pause(self, *partitions: TopicPartition) -> None:
        """Get no records of partitions until they are resumed; the member keeps them."""
        found = self._assigned(partitions)
        self._buffer.paused.update(dict.fromkeys(found))
        self._polling.post("pause", found)

    def resume(self, *partitions: TopicPartition) -> None:
        """Get records of partitions again."""
        found = self._assigned(partitions)
        for tp in found:
            self._buffer.paused.pop(tp, None)
        self._polling.post("resume", found)

    def paused(self) -> set[TopicPartition]:
        """Return the partitions that are paused."""
        return InOrder(self._buffer.paused)

    def wakeup(self) -> None:
        """Have the poll under way, or the next one, raise WakeupError (Java: wakeup)."""
        self._polling.post("wakeup")

    # What was processed.

    def _note_processed(self) -> None:
        """Take what was handed out as processed, unless the application says so itself."""
        assume_processed(self._session, self._buffer.handed)
        self._buffer.handed.clear()
