"""Aggregation of a stream by key (KStreamAggregate, KStreamReduce)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.processors.context import Dropped, Processor
from kafkasim.model.streams.processors.tables import TableOperator, TableProcessor
from kafkasim.model.streams.records import StreamRecord, timestamped
from kafkasim.model.streams.topology.nodes import StoreSpec

Initializer = Callable[[], Any]
Aggregator = Callable[[Any, Any, Any], Any]
"""A function of key, value and aggregate; it returns the new aggregate."""


class StreamAggregate(TableOperator):
    """An aggregate of each key. ``initializer`` None stands for reduce: the first value is it."""

    def __init__(
        self, spec: StoreSpec, initializer: Initializer | None, aggregator: Aggregator
    ) -> None:
        self.stores = (spec,)
        self.initializer, self.aggregator = initializer, aggregator

    def __call__(self) -> Processor:
        """Return a new processor."""
        return StreamAggregateProcessor(self)


class StreamAggregateProcessor(TableProcessor[StreamAggregate]):
    """The aggregate's timestamp is the largest of its records'."""

    def process(self, record: StreamRecord) -> None:
        """Update the aggregate of the record's key; forward it."""
        key, value, timestamp = record
        if key is None or value is None:
            self.context.drop(Dropped.NULL_KEY_OR_VALUE)
            return
        operator = self._operator
        known = self._store.get(key)
        if known is not None:
            old = known.value
            timestamp = max(timestamp, known.timestamp)
            new = operator.aggregator(key, value, old)
        elif operator.initializer is None:
            old, new = None, value
        else:
            old = operator.initializer()
            new = operator.aggregator(key, value, old)
        self._store.put(key, timestamped(new, timestamp))
        self._forwarder.update(key, new, old, timestamp)
