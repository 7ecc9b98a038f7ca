"""Up to where the log of a state partition is redundant (ShareCoordinatorOffsetsManager).

Every share partition needs its last snapshot and the updates after it. What lies below the oldest
of these snapshots is redundant.
"""

from __future__ import annotations

from kafkasim.model.share.records import SharePartitionKey

MAX_LONG = 2**63 - 1


class ShareCoordinatorOffsetsManager:
    """The offset of the last snapshot, or tombstone, of each share partition."""

    __slots__ = ("_last_redundant_offset", "_offsets")

    def __init__(self) -> None:
        self._offsets: dict[SharePartitionKey, int] = {}
        self._last_redundant_offset = MAX_LONG

    def update_state(self, key: SharePartitionKey, offset: int) -> None:
        """Take note of a snapshot or a tombstone at ``offset``."""
        self._last_redundant_offset = min(self._last_redundant_offset, offset)
        self._offsets[key] = offset
        # Kafka stops at the first that equals the offset that it knows, which is their minimum.
        self._last_redundant_offset = min(self._offsets.values())

    @property
    def last_redundant_offset(self) -> int | None:
        """The smallest offset that is needed; None if nothing can be removed."""
        offset = self._last_redundant_offset
        return None if offset <= 0 or offset == MAX_LONG else offset

    def offset_of(self, key: SharePartitionKey) -> int | None:
        """Return the offset of a share partition's last snapshot or tombstone."""
        return self._offsets.get(key)

    def restore(self, key: SharePartitionKey, offset: int | None) -> None:
        """Undo an update: its record could not be appended."""
        if offset is None:
            del self._offsets[key]
        else:
            self._offsets[key] = offset
        self._last_redundant_offset = min(self._offsets.values(), default=MAX_LONG)
