"""What all stores share: their entries, the log of their writes, restoring (StateStore)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.streams.processors.rules import OperatorRules
from kafkasim.model.streams.records import RecordContext
from kafkasim.model.streams.topology.nodes import StoreSpec

Log = Callable[[str, Any, Any, int | None], None]
"""Called for each write: store, key, value (None deletes), and the timestamp of the changelog
record in ms; None stands for the producer's time."""


class StoreContext(Protocol):
    """What a store knows of its task."""

    @property
    def rules(self) -> OperatorRules:
        """The rules of operators."""
        ...

    @property
    def record_context(self) -> RecordContext | None:
        """The input record that is being processed."""
        ...

    def set_record_context(self, context: RecordContext | None) -> None:
        """Let another input record be the one that is processed: it caused a cached write."""
        ...

    def log(self, store: str, key: Any, value: Any, timestamp: int | None) -> None:
        """Write to a store's changelog."""
        ...

    def expired(self) -> None:
        """Report a write that a store refused, because it is older than its retention."""
        ...


class Store:
    """A store of one task. Its values are what its processors gave, by key."""

    def __init__(self, spec: StoreSpec, context: StoreContext) -> None:
        self.spec = spec
        self.name = spec.name
        self.entries: dict[Any, Any] = {}
        self._context = context

    def restore(self, key: Any, value: Any, timestamp: int) -> None:
        """Apply a record of the changelog, without logging it again."""
        raise NotImplementedError

    def all(self) -> list[tuple[Any, Any]]:
        """Return all entries that a processor could see, in the order of their keys' bytes."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forget everything: the store's files are wiped."""
        self.entries.clear()

    def _log(self, key: Any, value: Any, timestamp: int | None) -> None:
        if self.spec.logged:
            self._context.log(self.name, key, value, timestamp)

    def _time(self) -> int:
        """Return the timestamp of the record in flight, 0 in a punctuator."""
        context = self._context.record_context
        return 0 if context is None else context.timestamp
