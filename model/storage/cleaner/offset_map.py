"""The offsets of the last record of each key in the dirty part of a log (SkimpyOffsetMap).

Kafka keeps MD5 hashes of keys in a buffer of fixed size; here the keys themselves stand in a
dictionary that takes as many. Left out: two keys with one hash.
"""

from __future__ import annotations

from collections.abc import Hashable

BYTES_PER_ENTRY = 24  # an MD5 hash and an offset


class OffsetMap:
    """Key -> offset, for at most ``slots`` keys."""

    __slots__ = ("_offsets", "latest_offset", "slots")

    def __init__(self, memory: int) -> None:
        """``memory`` is the size of the buffer in bytes."""
        self.slots = memory // BYTES_PER_ENTRY
        self.latest_offset = -1  # the map says nothing of records above it
        self._offsets: dict[Hashable, int] = {}

    def __len__(self) -> int:
        return len(self._offsets)

    def clear(self) -> None:
        """Forget all keys."""
        self._offsets = {}
        self.latest_offset = -1

    def put(self, key: Hashable, offset: int) -> None:
        """Set the offset of a key."""
        assert len(self._offsets) < self.slots, self.slots
        self._offsets[key] = self.latest_offset = offset

    def get(self, key: Hashable) -> int:
        """Return the offset of a key, −1 if it is not in the map."""
        return self._offsets.get(key, -1)
