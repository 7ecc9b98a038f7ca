"""The partition of a record: by the hash of its key, sticky, or in turn.

Models Utils.murmur2, BuiltInPartitioner with adaptive partitioning (KIP-794), DefaultPartitioner
with StickyPartitionCache (KIP-480), the default from 2.4 to 3.2, and RoundRobinPartitioner.

Not modelled: partitioner.availability.timeout.ms, partitioner.ignore.keys.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from importlib import import_module

from kafkasim.model.config.clients import ROUND_ROBIN

_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """Return Kafka's 32-bit murmur2 hash as a signed int."""
    length = len(data)
    h = 0x9747B28C ^ length
    tail = length & ~3
    for at in range(0, tail, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ (k >> 24)) * _M & _MASK
        h = (h * _M & _MASK) ^ k
    if tail < length:
        h ^= int.from_bytes(data[tail:], "little")
        h = h * _M & _MASK
    h ^= h >> 13
    h = h * _M & _MASK
    h ^= h >> 15
    return h - (1 << 32) if h & 0x80000000 else h


def positive_hash(key: bytes) -> int:
    """Return the hash of a key with its sign bit cleared (Utils.toPositive)."""
    return murmur2(key) & 0x7FFFFFFF


def partition_for_key(key: bytes, partitions: int) -> int:
    """Return the partition of a keyed record (BuiltInPartitioner.partitionForKey)."""
    return positive_hash(key) % partitions


Partitioner = Callable[[bytes | None, Sequence[int], Sequence[int]], int]
"""A custom partitioner: from the key and the numbers of all partitions and of those with a leader
to the partition of a record."""


class RoundRobinPartitioner:
    """The partitions of one topic in turn, whatever the keys are (RoundRobinPartitioner)."""

    __slots__ = ("_next",)

    def __init__(self) -> None:
        self._next = 0

    def __call__(self, _key: bytes | None, every: Sequence[int], available: Sequence[int]) -> int:
        """Return the next partition that has a leader, or the next of all if none has."""
        turn = self._next
        self._next = turn + 1
        return available[turn % len(available)] if available else turn % len(every)


class DefaultPartitioner:
    """The partitions of one topic: by the key, and without one sticky until a batch is closed.

    It was the default from 2.4 to 3.2 (DefaultPartitioner, StickyPartitionCache; KIP-480).
    """

    __slots__ = ("_rng", "_sticky")

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._sticky = -1  # −1: none is chosen

    def __call__(self, key: bytes | None, every: Sequence[int], available: Sequence[int]) -> int:
        """Return the partition of a record."""
        if key is not None:
            return partition_for_key(key, len(every))
        if self._sticky < 0:
            self._choose(every, available)
        return self._sticky

    def on_new_batch(self, left: int, every: Sequence[int], available: Sequence[int]) -> None:
        """Choose another partition if a record opens a new batch of the sticky one, ``left``.

        The choice is uniform among the others that have a leader; a slow broker gets its share of
        batches, however many of its own wait (KAFKA-10888).
        """
        if left == self._sticky:
            self._choose(every, available)

    def _choose(self, every: Sequence[int], available: Sequence[int]) -> None:
        others = [p for p in available if p != self._sticky] or available or every
        self._sticky = others[self._rng.randrange(len(others))]


def partitioner_class(name: str) -> Callable[[], Partitioner]:
    """Return the class of a value of partitioner.class: RoundRobinPartitioner, or the user's.

    A user's one is ``module:name`` of a Python class. Its instances, one for each topic of a
    producer, are called as :data:`Partitioner` says.

    Raises:
        ValueError: there is none of this name.
    """
    if name == ROUND_ROBIN:
        return RoundRobinPartitioner
    module, _, attribute = name.partition(":")
    try:
        found = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ValueError(f"{name!r} cannot be imported: {error}") from error
    if not isinstance(found, type):
        raise ValueError(f"{name!r} is no class")
    made: Callable[[], Partitioner] = found
    return made


class StickyPartitioner:
    """The partition of one topic's records without a key.

    It stays until batch.size bytes have gone there, and changes at the boundary of a batch.
    """

    __slots__ = ("_batch_size", "_produced", "_rng", "partition")

    def __init__(self, batch_size: int, rng: random.Random) -> None:
        self._batch_size = max(1, batch_size)
        self._rng = rng
        self._produced = 0  # bytes since the partition was chosen
        self.partition = -1  # −1: none is chosen

    def appended(self, size: int, batch_boundary: bool) -> None:
        """Count ``size`` bytes; leave the partition if that is due.

        Enough bytes lead away at the boundary of a batch, twice as many anywhere.
        """
        self._produced = produced = self._produced + size
        limit = self._batch_size
        if produced >= limit and (batch_boundary or produced >= 2 * limit):
            self.partition = -1

    def at_boundary(self) -> None:
        """Leave the partition if enough bytes went there: none of its batches takes records."""
        if self._produced >= self._batch_size:
            self.partition = -1

    def choose(self, available: Sequence[int], queue_sizes: Sequence[int]) -> int:
        """Choose the next partition at random; a shorter queue makes it more likely.

        ``queue_sizes`` are the numbers of batches that wait for the available partitions.
        """
        assert available, "no partition to choose from"
        most = max(queue_sizes) + 1
        pick = self._rng.randrange(sum([most - size for size in queue_sizes]))
        chosen = available[-1]
        for partition, size in zip(available, queue_sizes, strict=True):
            pick -= most - size
            if pick < 0:
                chosen = partition
                break
        self._produced = 0
        self.partition = chosen
        return chosen
