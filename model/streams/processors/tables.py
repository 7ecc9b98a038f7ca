"""What all operators that make a table share, and tables read from a topic.

Models KTableProcessorSupplier, KTableValueGetter, TimestampedTupleForwarder, KTableSource.

A table operator is made when the topology is built and is the supplier of its processors. It knows
whether something downstream needs old values, and how another processor looks up its values.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from kafkasim.model.streams.processors.context import Context, Dropped, Processor
from kafkasim.model.streams.records import (
    Change,
    StreamRecord,
    ValueAndTimestamp,
    timestamped,
    value_of,
)
from kafkasim.model.streams.stores.cache import Cached
from kafkasim.model.streams.topology.nodes import StoreSpec

ValueGetter = Callable[[Any], ValueAndTimestamp | None]
"""Looks up a table's value of a key now."""


class Forwarder:
    """Forwards updates of a store, unless the store is cached: then the cache does, later."""

    def __init__(self, context: Context, store: Any, send_old: bool) -> None:
        self._forward = context.forward
        self._send_old = send_old
        self._cached = isinstance(store, Cached)
        if isinstance(store, Cached):
            store.set_flush_listener(context.forward, send_old)

    def update(self, key: Any, new: Any, old: Any, timestamp: int) -> None:
        """Forward an update, or leave it to the cache."""
        if not self._cached:
            change = Change(new, old if self._send_old else None)
            self._forward(StreamRecord(key, change, timestamp))


class TableOperator:
    """An operator whose output is a table; calling it makes the processor of a task."""

    stores: tuple[StoreSpec, ...] = ()
    """The stores that it brings to the topology."""

    sends_old = False

    def __call__(self) -> Processor:
        """Return a new processor."""
        raise NotImplementedError

    def enable_sending_old_values(self, force: bool) -> bool:
        """Let updates carry the old value; return whether they now do.

        Without ``force`` nothing is materialised for it.
        """
        self.sends_old = True
        return True

    def store_names(self) -> tuple[str, ...]:
        """Return the stores that a lookup reads: its node must be connected to them."""
        return tuple(spec.name for spec in self.stores)

    def getter(self, context: Context) -> ValueGetter:
        """Return the lookup of values, in the task of a connected node."""
        get: ValueGetter = context.store(self.store_names()[0]).get
        return get


class TableSource(TableOperator):
    """A table of a topic: the last value of each key, by offset (KTableSource).

    It has a store only if its values are looked up, or old values are needed.
    """

    def __init__(self, spec: StoreSpec, materialized: bool) -> None:
        self._spec = spec
        if materialized:
            self.materialize()

    def materialize(self) -> None:
        """Keep the values in the store."""
        self.stores = (self._spec,)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Keep values, and send old ones."""
        if not force and not self.stores:
            return False
        self.materialize()
        self.sends_old = True
        return True

    def store_names(self) -> tuple[str, ...]:
        """Materialise the table, as its values are looked up."""
        self.materialize()
        return (self._spec.name,)

    def __call__(self) -> Processor:
        """Return a new processor."""
        return TableSourceProcessor(self)


Operator = TypeVar("Operator", bound=TableOperator)


class TableProcessor(Processor, Generic[Operator]):
    """The processor of an operator that makes a table, with the table's store if it has one."""

    def __init__(self, operator: Operator) -> None:
        self._operator = operator
        self._store: Any = None

    def init(self, context: Context) -> None:
        """Find the store, if there is one."""
        super().init(context)
        if self._operator.stores:
            self._store = context.store(self._operator.stores[0].name)
            self._forwarder = Forwarder(context, self._store, self._operator.sends_old)


class TableSourceProcessor(TableProcessor[TableSource]):
    """A record with an older timestamp still wins; null deletes; a null key is dropped."""

    def process(self, record: StreamRecord) -> None:
        """Put the value, and forward the change."""
        if record.key is None:
            self.context.drop(Dropped.NULL_KEY)
            return
        if self._store is None:
            self.context.forward(record._replace(value=Change(record.value, None)))
            return
        old = value_of(self._store.get(record.key))
        self._store.put(record.key, timestamped(record.value, record.timestamp))
        self._forwarder.update(record.key, record.value, old, record.timestamp)
