"""Operators without state: map, filter, flatMap, peek, and what tables become as streams.

Models KStreamMap, KStreamMapValues, KStreamFilter, KStreamFlatMap, KStreamPeek, PassThrough.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafkasim.model.streams.processors.context import Processor
from kafkasim.model.streams.records import StreamRecord

KeyValueMapper = Callable[[Any, Any], Any]
"""A function of key and value."""


class MapProcessor(Processor):
    """Replace key and value by what the mapper returns: a pair."""

    def __init__(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._mapper = mapper

    def process(self, record: StreamRecord) -> None:
        """Forward the record with the new key and value, and its timestamp."""
        key, value = self._mapper(record.key, record.value)
        self.context.forward(StreamRecord(key, value, record.timestamp))


class MapValuesProcessor(Processor):
    """Replace the value by what the mapper returns."""

    def __init__(self, mapper: KeyValueMapper) -> None:
        self._mapper = mapper

    def process(self, record: StreamRecord) -> None:
        """Forward the record with the new value."""
        value = self._mapper(record.key, record.value)
        self.context.forward(StreamRecord(record.key, value, record.timestamp))


class FilterProcessor(Processor):
    """Forward the records for which the predicate holds, or does not (filterNot)."""

    def __init__(self, predicate: KeyValueMapper, negated: bool = False) -> None:
        self._predicate, self._negated = predicate, negated

    def process(self, record: StreamRecord) -> None:
        """Forward the record, or drop it silently."""
        if bool(self._predicate(record.key, record.value)) is not self._negated:
            self.context.forward(record)


class FlatMapProcessor(Processor):
    """Forward a record for each pair that the mapper returns."""

    def __init__(self, mapper: Callable[[Any, Any], Iterable[tuple[Any, Any]]]) -> None:
        self._mapper = mapper

    def process(self, record: StreamRecord) -> None:
        """Forward the pairs in their order, all with the record's timestamp."""
        for key, value in self._mapper(record.key, record.value):
            self.context.forward(StreamRecord(key, value, record.timestamp))


class PeekProcessor(Processor):
    """Call an action for each record; forward it, unless this is foreach()."""

    def __init__(self, action: KeyValueMapper, forwards: bool = True) -> None:
        self._action, self._forwards = action, forwards

    def process(self, record: StreamRecord) -> None:
        """Call the action, then forward."""
        self._action(record.key, record.value)
        if self._forwards:
            self.context.forward(record)


class PassThrough(Processor):
    """Forward each record: the node where branches meet."""

    def process(self, record: StreamRecord) -> None:
        """Forward the record."""
        self.context.forward(record)
