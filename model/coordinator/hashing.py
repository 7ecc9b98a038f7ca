"""Which partition of a coordinator's topic holds a key (partitionFor, String.hashCode)."""

from __future__ import annotations


def java_string_hash(text: str) -> int:
    """Return String.hashCode: h = 31·h + c over the UTF-16 units, as a signed 32-bit integer."""
    data = text.encode("utf-16-be", "surrogatepass")
    h = 0
    for i in range(0, len(data), 2):
        h = (31 * h + (data[i] << 8) + data[i + 1]) & 0xFFFFFFFF
    return h - (1 << 32) if h >= 1 << 31 else h


def partition_for(key: str, partitions: int) -> int:
    """Return which of a topic's partitions holds a group or transactional id.

    The absolute value of −2^31 is 0, as in Utils.abs.
    """
    h = java_string_hash(key)
    return (0 if h == -(1 << 31) else abs(h)) % partitions


class KeyPartitions:
    """The partition that holds each key of a topic; each is computed once."""

    __slots__ = ("_known", "_partitions")

    def __init__(self, partitions: int) -> None:
        """``partitions`` is how many the topic has."""
        self._partitions = partitions
        self._known: dict[str, int] = {}

    def of(self, key: str) -> int:
        """Return the partition of a key."""
        partition = self._known.get(key)
        if partition is None:
            partition = self._known[key] = partition_for(key, self._partitions)
        return partition
