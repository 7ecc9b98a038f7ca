"""A key-value store, with timestamps or without (TimestampedKeyValueStore, KeyValueStore)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.streams.records import serialized, timestamped
from kafkasim.model.streams.stores.base import Store
from kafkasim.model.streams.topology.nodes import StoreKind


class KeyValueWrites:
    """The writes that return what was there, of a store and of the cache over it."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        raise NotImplementedError

    def put(self, key: Any, value: Any) -> None:
        """Set a value, or delete it (None)."""
        raise NotImplementedError

    def put_if_absent(self, key: Any, value: Any) -> Any:
        """Set a value if there is none; return the one that was there."""
        previous = self.get(key)
        if previous is None:
            self.put(key, value)
        return previous

    def delete(self, key: Any) -> Any:
        """Delete a key; return its value."""
        previous = self.get(key)
        self.put(key, None)
        return previous


class KeyValueStore(KeyValueWrites, Store):
    """Values by key. Values of a timestamped store are ValueAndTimestamp; None deletes."""

    def get(self, key: Any) -> Any:
        """Return the value of a key, or None."""
        return self.entries.get(key)

    def put(self, key: Any, value: Any) -> None:
        """Set a value, or delete it (None), and log the write."""
        self._set(key, value)
        if self.spec.kind is StoreKind.PLAIN:
            self._log(key, value, self._time())
        elif value is None:
            self._log(key, None, self._time())
        else:
            self._log(key, value.value, value.timestamp)

    def all(self) -> list[tuple[Any, Any]]:
        """Return all entries, in the order of their keys' bytes."""
        return [(key, self.entries[key]) for key in sorted(self.entries, key=self.order)]

    def range(self, first: Any, last: Any) -> list[tuple[Any, Any]]:
        """Return the entries from one key to another, inclusive; None is open."""
        low = None if first is None else serialized(first)
        high = None if last is None else serialized(last)
        found = [(serialized(key), key) for key in self.entries]
        found = [each for each in found if low is None or each[0] >= low]
        found = [each for each in found if high is None or each[0] <= high]
        return [(key, self.entries[key]) for _, key in sorted(found, key=lambda each: each[0])]

    def restore(self, key: Any, value: Any, timestamp: int) -> None:
        """Apply a changelog record; a timestamped value gets the record's timestamp."""
        plain = self.spec.kind is StoreKind.PLAIN
        self._set(key, value if plain else timestamped(value, timestamp))

    def order(self, key: Any) -> bytes:
        """Return by what entries are ordered."""
        return serialized(key)

    def _set(self, key: Any, value: Any) -> None:
        if key is None:
            raise ValueError(f"key cannot be null: store {self.name}")
        if value is None:
            self.entries.pop(key, None)
        else:
            self.entries[key] = value
