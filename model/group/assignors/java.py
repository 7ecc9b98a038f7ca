"""The order in which Java's hash sets and maps iterate: Kafka's assignments follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Generic, TypeVar

from kafkasim.model.coordinator.hashing import java_string_hash

Item = TypeVar("Item")


def partition_hash(topic: str, partition: int) -> int:
    """Return TopicPartition.hashCode, without its sign."""
    return (31 * (31 + partition) + java_string_hash(topic)) & 0xFFFFFFFF


def java_order(keys: Iterable[str]) -> list[str]:
    """Return strings in the order in which a HashMap iterates that they were put into in turn."""
    ordered = JavaHashSet[str](java_string_hash)
    for key in keys:
        ordered.add(key)
    return list(ordered)


class JavaHashSet(Generic[Item]):
    """The items of a java.util.HashSet in the order of its iterator.

    Items are ordered by bucket, and in a bucket by the time of their adding. The table doubles at
    3/4 of its size and never shrinks. Buckets that became trees (above eight items) are not
    modelled.
    """

    def __init__(self, hash_code: Callable[[Item], int]) -> None:
        self._hash_code = hash_code
        self._size = 16
        self._spread: dict[Item, int] = {}  # the hash as HashMap uses it, by item as added

    def add(self, item: Item) -> None:
        """Add an item that is not in the set."""
        code = self._hash_code(item) & 0xFFFFFFFF
        self._spread[item] = code ^ code >> 16
        if len(self._spread) > self._size * 3 // 4:
            self._size *= 2

    def remove(self, item: Item) -> None:
        """Remove an item."""
        del self._spread[item]

    def __len__(self) -> int:
        return len(self._spread)

    def __iter__(self) -> Iterator[Item]:
        mask = self._size - 1
        return iter(sorted(self._spread, key=lambda item: self._spread[item] & mask))
