"""aiokafka.structs: what applications get from clients, and give them."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.handled import HANDLED

__all__ = ["TopicPartition"]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, of the next record to read, and a note."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """The offset of a record, and its time in milliseconds."""

    offset: int
    timestamp: int


class RecordMetadata(NamedTuple):
    """Where a record went."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int
    timestamp_type: int  # 0: CreateTime, 1: LogAppendTime


@dataclass(frozen=True)
class ConsumerRecord:
    """A record as an application reads it; ``timestamp`` is in milliseconds.

    A task that looks at its content handles it from then on (:mod:`..handled`).
    """

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    headers: tuple[tuple[str, bytes], ...]

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name in ("key", "value", "headers"):
            HANDLED.set((self.topic, self.partition, self.offset))
        return found


class InOrder(set[Any]):
    """A set that is iterated in the order of its elements: that of their hashes is no run's."""

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(super().__iter__()))

    def __repr__(self) -> str:
        return "{" + ", ".join(map(repr, self)) + "}" if self else "set()"

    def __and__(self, other: AbstractSet[object]) -> InOrder:
        return InOrder(super().__and__(other))

    def __or__(self, other: AbstractSet[Any]) -> InOrder:
        return InOrder(super().__or__(other))

    def __sub__(self, other: AbstractSet[object]) -> InOrder:
        return InOrder(super().__sub__(other))


class ConsumerRebalanceListener:
    """Hears of rebalances; both methods may be coroutines."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle the loss of partitions; a commit is still possible."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle new partitions, before the first record of them."""


class AbstractTokenProvider:
    """What SASL takes tokens from; no simulated broker asks for one."""


def commit_of(given: Any) -> int | tuple[int, str]:
    """Return what a commit of one partition carries: an offset, or an offset and its metadata."""
    return (int(given[0]), str(given[1])) if isinstance(given, tuple) else int(given)


def offset_of(given: Any) -> int:
    """Return the offset of what a commit takes: an offset, or an offset and its metadata."""
    return int(given[0] if isinstance(given, tuple) else given)
