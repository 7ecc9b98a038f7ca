"""The order of Java's hash sets, maps and heaps: Kafka's assignments follow from it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

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


class JavaHeap(Generic[Item]):
    """A java.util.PriorityQueue: its iterator gives the heap as it lies.

    ``order`` returns what an item is compared by; it must not change while the item waits.
    """

    def __init__(self, items: Iterable[Item], order: Callable[[Item], Any]) -> None:
        self._heap = list(items)
        self._order = order
        for at in range(len(self._heap) // 2 - 1, -1, -1):
            self._sift_down(at, self._heap[at])

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, item: Item) -> bool:
        return item in self._heap

    def __iter__(self) -> Iterator[Item]:
        return iter(list(self._heap))

    def offer(self, item: Item) -> None:
        """Add an item: it comes after those that it equals, if nothing is moved meanwhile."""
        self._heap.append(item)
        self._sift_up(len(self._heap) - 1, item)

    def poll(self) -> Item | None:
        """Remove and return the first item."""
        if not self._heap:
            return None
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._sift_down(0, last)
        return first

    def clear(self) -> None:
        """Remove all items."""
        self._heap.clear()

    def remove(self, item: Item) -> None:
        """Remove an item that is in the queue (removeAt)."""
        at = self._heap.index(item)
        last = self._heap.pop()
        if at < len(self._heap):
            self._sift_down(at, last)
            if self._heap[at] == last:
                self._sift_up(at, last)

    def _sift_down(self, at: int, item: Item) -> None:
        heap, order = self._heap, self._order
        while at < len(heap) // 2:
            child = 2 * at + 1
            if child + 1 < len(heap) and order(heap[child]) > order(heap[child + 1]):
                child += 1
            if order(item) <= order(heap[child]):
                break
            heap[at] = heap[child]
            at = child
        heap[at] = item

    def _sift_up(self, at: int, item: Item) -> None:
        heap, order = self._heap, self._order
        while at > 0:
            parent = (at - 1) // 2
            if order(item) >= order(heap[parent]):
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = item
