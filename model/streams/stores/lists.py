"""The store of records that a left or outer join still holds (ListValueStore)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.streams.records import JoinSideKey, serialized
from kafkasim.model.streams.stores.base import Store


class ListValueStore(Store):
    """Lists of values by JoinSideKey, in the order of time, side (right first) and key."""

    def append(self, key: JoinSideKey, value: Any) -> None:
        """Add a value to a key's list, and log the list."""
        self._write(key, (*self.entries.get(key, ()), value))

    def delete(self, key: JoinSideKey) -> None:
        """Delete a key's list, and log that."""
        self._write(key, None)

    def delete_if_present(self, key: JoinSideKey) -> None:
        """Delete a key's list if there is one; only that is logged (putIfAbsent with null)."""
        if key in self.entries:
            self._write(key, None)

    def all(self) -> list[tuple[Any, Any]]:
        """Return (key, list of values) in order."""
        return [(key, self.entries[key]) for key in sorted(self.entries, key=serialized)]

    def restore(self, key: Any, value: Any, timestamp: int) -> None:
        """Apply a changelog record: the value is the whole list."""
        self._set(key, value)

    def _write(self, key: JoinSideKey, values: tuple[Any, ...] | None) -> None:
        self._set(key, values)
        self._log(key, values, self._time())

    def _set(self, key: JoinSideKey, values: tuple[Any, ...] | None) -> None:
        if values is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = values
