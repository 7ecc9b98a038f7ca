"""What a poll() returned and the application has not got yet; what it got, and has processed."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Container, Iterable
from dataclasses import replace
from typing import Any

from kafkasim.model.facts import Processed
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.handled import HANDLED
from kafkasim.scenarios.applications.session import Session
from kafkasim.scenarios.applications.types.errors import RecordDeserializationError
from kafkasim.scenarios.applications.types.structs import ConsumerRecord

Deserializer = Callable[[bytes], Any]


class Buffer:
    """The records of one poll(): which are handed out, and which wait, as of paused partitions."""

    def __init__(
        self, place: Session, of_key: Deserializer | None, of_value: Deserializer | None
    ) -> None:
        self._session = place
        self._of_key, self._of_value = of_key, of_value
        self._records: deque[ConsumerRecord] = deque()
        self.paused: dict[TopicPartition, None] = {}
        self.handed: list[ConsumerRecord] = []  # got by the application, not processed yet
        self.consumed: dict[TopicPartition, int] = {}  # the offset after the last one handed out

    def add(self, tp: TopicPartition, records: Iterable[tuple[int, int, Any, int]]) -> None:
        """Add what a poll() returned of a partition."""
        self._records.extend([self._record(tp, *record) for record in records])

    def ready(self, wanted: Container[TopicPartition]) -> int:
        """Return how many records may be handed out; of all partitions if none is wanted."""
        if not (self.paused or wanted):
            return len(self._records)
        return sum([self._may_go(each, wanted) for each in self._records])

    def take(self, wanted: Container[TopicPartition]) -> ConsumerRecord:
        """Take the next record that may be handed out.

        Raises:
            RecordDeserializationError: it cannot be read; it is the next one still.
        """
        for place, record in enumerate(self._records):
            if self._may_go(record, wanted):
                read = self._deserialized(record)
                del self._records[place]
                self.consumed[_partition(record)] = record.offset + 1
                self.handed.append(read)
                self._session.handling[self._session.node] = None
                HANDLED.set((read.topic, read.partition, read.offset))
                return read
        raise AssertionError("no record is ready")

    def position(self, tp: TopicPartition) -> int | None:
        """Return the offset of the next record that the application gets, None if it is unknown."""
        return self.consumed.get(tp, self.firsts().get(tp))

    def firsts(self) -> dict[TopicPartition, int]:
        """Return the offset of the next record of each partition that has one."""
        found: dict[TopicPartition, int] = {}
        for record in self._records:
            found.setdefault(_partition(record), record.offset)
        return found

    def drop(self) -> None:
        """Forget all records."""
        self._records.clear()

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Forget the records of partitions, and where the application stands in them."""
        gone = dict.fromkeys(partitions)
        self._records = deque([each for each in self._records if _partition(each) not in gone])
        for tp in gone:
            self.consumed.pop(tp, None)

    def lose(self, tp: TopicPartition) -> None:
        """Forget a partition that a rebalance has taken away."""
        self.consumed.pop(tp, None)
        self.paused.pop(tp, None)

    def _may_go(self, record: ConsumerRecord, wanted: Container[TopicPartition]) -> bool:
        tp = _partition(record)
        return tp not in self.paused and (not wanted or tp in wanted)

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
        of_key, of_value = self._of_key, self._of_value
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
            raise RecordDeserializationError(_partition(record), record.offset) from error


def _partition(record: ConsumerRecord) -> TopicPartition:
    return TopicPartition(record.topic, record.partition)


def assume_processed(place: Session, records: list[ConsumerRecord]) -> None:
    """Take records as processed, unless the application says itself what it has processed."""
    if records and not place.tells:
        place.assumed[place.group] = None
        record_processed(place, records)


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
