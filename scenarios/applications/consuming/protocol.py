"""aiokafka.coordinator.protocol: what members of a group tell each other, and its bytes.

The bytes are those of version 0 of ConsumerProtocolSubscription and ConsumerProtocolAssignment: the
version (int16), an array of topics, the user data. Later versions add fields behind them.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

from kafkasim.model.records import TopicPartition


class TopicPartitions(NamedTuple):
    """Partitions of one topic."""

    topic: str
    partitions: list[int]


def topics_of(partitions: Iterable[TopicPartition]) -> list[TopicPartitions]:
    """Return partitions by topic, in order."""
    by_topic: dict[str, list[int]] = {}
    for topic, number in sorted(partitions):
        by_topic.setdefault(topic, []).append(number)
    return [TopicPartitions(topic, numbers) for topic, numbers in by_topic.items()]


class _Bytes:
    """Reads big-endian numbers, and what they count, from bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def number(self, size: int) -> int:
        """Return a signed number of ``size`` bytes."""
        return int.from_bytes(self.some(size), "big", signed=True)

    def some(self, size: int) -> bytes:
        """Return the next bytes; none for a size below 0, which stands for null.

        Raises:
            ValueError: there are fewer.
        """
        found = self._data[self._at : self._at + max(0, size)]
        if len(found) < size:
            raise ValueError(f"{size} bytes are wanted at {self._at} of {len(self._data)}")
        self._at += len(found)
        return found

    def text(self) -> str:
        """Return a string."""
        return self.some(self.number(2)).decode()

    def array(self, read: Callable[[], Any]) -> list[Any]:
        """Return what ``read()`` finds, as often as the count before it says."""
        return [read() for _ in range(self.number(4))]


def _array(parts: Iterable[bytes]) -> bytes:
    found = list(parts)
    return struct.pack(">i", len(found)) + b"".join(found)


def _text(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


def _user_data(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


@dataclass
class ConsumerProtocolMemberMetadata:
    """What a member subscribes to, and what its assignor tells the leader's."""

    version: int
    subscription: list[str]
    user_data: bytes

    def encode(self) -> bytes:
        """Return the bytes that JoinGroup carries."""
        topics = _array(map(_text, self.subscription))
        return struct.pack(">h", self.version) + topics + _user_data(self.user_data)

    @classmethod
    def decode(cls, data: bytes) -> ConsumerProtocolMemberMetadata:
        """Return what bytes say; ValueError if they end too early."""
        read = _Bytes(data)
        version, topics = read.number(2), read.array(read.text)
        return cls(version, topics, read.some(read.number(4)))


@dataclass
class ConsumerProtocolMemberAssignment:
    """What a member gets: (topic, partitions) for each topic."""

    Assignment: ClassVar[type] = TopicPartitions

    version: int
    assignment: list[Any]
    user_data: bytes

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions one by one."""
        return [TopicPartition(topic, number) for topic, some in self.assignment for number in some]

    def encode(self) -> bytes:
        """Return the bytes that SyncGroup carries."""
        topics = _array(
            [
                _text(topic) + _array([struct.pack(">i", number) for number in some])
                for topic, some in self.assignment
            ]
        )
        return struct.pack(">h", self.version) + topics + _user_data(self.user_data)

    @classmethod
    def decode(cls, data: bytes) -> ConsumerProtocolMemberAssignment:
        """Return what bytes say; ValueError if they end too early."""
        read = _Bytes(data)

        def topic() -> TopicPartitions:
            return TopicPartitions(read.text(), read.array(lambda: read.number(4)))

        version, topics = read.number(2), read.array(topic)
        return cls(version, topics, read.some(read.number(4)))
