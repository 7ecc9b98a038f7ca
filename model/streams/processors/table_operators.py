"""Operators from table to table: filter, mapValues, groupBy with aggregates, joins.

Models KTableFilter, KTableMapValues, KTableRepartitionMap, KTableAggregate, KTableReduce and the
KTableKTable joins. Left out: versioned tables, foreign-key joins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.processors.aggregates import Aggregator, Initializer
from kafkasim.model.streams.processors.context import (
    Context,
    Dropped,
    Processor,
    StreamsFailure,
)
from kafkasim.model.streams.processors.tables import TableOperator, TableProcessor, ValueGetter
from kafkasim.model.streams.records import (
    UNKNOWN,
    Change,
    StreamRecord,
    ValueAndTimestamp,
    timestamped,
    value_of,
)
from kafkasim.model.streams.topology.nodes import StoreSpec

Compute = Callable[[Any, Any], Any]
"""A function of key and value that returns the value of the new table, or None."""


class TableMap(TableOperator):
    """filter() or mapValues() of a table: each value follows from the parent's."""

    def __init__(
        self, parent: TableOperator, compute: Compute, spec: StoreSpec | None, filters: bool
    ) -> None:
        """``spec`` is None if the table is not materialised."""
        self.stores = () if spec is None else (spec,)
        self.compute, self.filters, self._parent = compute, filters, parent
        if filters:  # it can then be silent about keys that stay out
            self.sends_old = parent.enable_sending_old_values(False)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Send old values if there is a store, or if the parent sends them."""
        if self.stores or self._parent.enable_sending_old_values(force):
            self.sends_old = True
        return self.sends_old

    def store_names(self) -> tuple[str, ...]:
        """Return the store, or the parent's."""
        return super().store_names() or self._parent.store_names()

    def getter(self, context: Context) -> ValueGetter:
        """Return the lookup in the store, or over the parent's value."""
        if self.stores:
            return super().getter(context)
        parent = self._parent.getter(context)

        def get(key: Any) -> ValueAndTimestamp | None:
            entry = parent(key)
            if entry is None:
                return None
            return timestamped(self.compute(key, entry.value), entry.timestamp)

        return get

    def __call__(self) -> Processor:
        """Return a new processor."""
        return TableMapProcessor(self)


class TableMapProcessor(TableProcessor[TableMap]):
    """Computes the new value, and the old one if it is sent."""

    def process(self, record: StreamRecord) -> None:
        """Forward the change; a filter is silent about a key that stays out."""
        operator, key, change = self._operator, record.key, record.value
        new = None if change.new is None else operator.compute(key, change.new)
        old = None
        if operator.sends_old and self._store is not None:
            old = value_of(self._store.get(key))
        elif operator.sends_old and change.old is not None:
            old = operator.compute(key, change.old)
        if operator.filters and operator.sends_old and old is None and new is None:
            return
        if self._store is None:
            self.context.forward(record._replace(value=Change(new, old)))
        else:
            self._store.put(key, timestamped(new, record.timestamp))
            self._forwarder.update(key, new, old, record.timestamp)


class TableRepartitionMapProcessor(Processor):
    """groupBy() of a table: an update leaves its old group and enters its new one.

    It is one record if the group is the same (since 3.5: KAFKA-12446), else two.
    """

    def __init__(self, selector: Callable[[Any, Any], tuple[Any, Any]]) -> None:
        self._selector = selector

    def process(self, record: StreamRecord) -> None:
        """Forward the removal first.

        Raises:
            StreamsFailure: the key is null.
        """
        if record.key is None:
            raise StreamsFailure("Record key for the grouping KTable should not be null.")
        new, old = (
            self._pair(record.key, record.value.new),
            self._pair(record.key, record.value.old),
        )
        if old is not None and new is not None and old[0] == new[0]:
            change = Change(new[1], old[1])
            self.context.forward(StreamRecord(old[0], change, record.timestamp))
            return
        if old is not None:
            self.context.forward(StreamRecord(old[0], Change(None, old[1]), record.timestamp))
        if new is not None:
            self.context.forward(StreamRecord(new[0], Change(new[1], None), record.timestamp))

    def _pair(self, key: Any, value: Any) -> tuple[Any, Any] | None:
        pair = None if value is None else self._selector(key, value)
        return None if pair is None or pair[0] is None or pair[1] is None else pair


class TableAggregate(TableOperator):
    """An aggregate of a grouped table: subtracts old values, adds new ones.

    ``initializer`` None stands for reduce.
    """

    def __init__(
        self,
        spec: StoreSpec,
        initializer: Initializer | None,
        adder: Aggregator,
        subtractor: Aggregator,
    ) -> None:
        self.stores = (spec,)
        self.initializer, self.adder, self.subtractor = initializer, adder, subtractor

    def __call__(self) -> Processor:
        """Return a new processor."""
        return TableAggregateProcessor(self)


class TableAggregateProcessor(TableProcessor[TableAggregate]):
    """Takes the changes that come through the repartition topic."""

    def process(self, record: StreamRecord) -> None:
        """Subtract, add, put, forward."""
        key, change, timestamp = record
        if key is None:
            raise StreamsFailure(
                f"Record key for KTable aggregate operator with state "
                f"{self._operator.stores[0].name} should not be null."
            )
        known = self._store.get(key)
        old = aggregate = value_of(known)
        is_newest = False
        if change.old is not None and known is not None:
            aggregate = self._operator.subtractor(key, change.old, aggregate)
            is_newest = True
        if change.new is not None:
            aggregate, added = self._add(key, change.new, aggregate)
            is_newest = is_newest or (added and known is not None)
        if is_newest:
            timestamp = max(timestamp, known.timestamp)
        self._store.put(key, timestamped(aggregate, timestamp))
        self._forwarder.update(key, aggregate, old, timestamp)

    def _add(self, key: Any, value: Any, aggregate: Any) -> tuple[Any, bool]:
        """Return the aggregate, and whether the store's time counts for it."""
        operator = self._operator
        if operator.initializer is None and aggregate is None:
            return value, False
        if aggregate is None and operator.initializer is not None:
            aggregate = operator.initializer()
        return operator.adder(key, value, aggregate), True


class TableJoin:
    """A join of two tables: inner, left or outer."""

    def __init__(self, left: TableOperator, right: TableOperator, joiner: Any, kind: str) -> None:
        """``kind`` is `inner`, `left` or `outer`."""
        self.tables, self.joiner = (left, right), joiner
        self.left_outer, self.right_outer = kind != "inner", kind == "outer"

    def side(self, left: bool) -> TableJoinSide:
        """Return the operator of one side."""
        return TableJoinSide(self, left)

    def join(self, key: Any, left: Any, right: Any) -> Any:
        """Return the value of the join, None if there is none."""
        if left is None and (right is None or not self.right_outer):
            return None
        if right is None and not self.left_outer:
            return None
        return self.joiner(key, left, right)


class TableJoinSide(TableOperator):
    """One side of a join of tables: it looks up the other side."""

    def __init__(self, join: TableJoin, left: bool) -> None:
        self.table_join, self.left = join, left

    def enable_sending_old_values(self, force: bool) -> bool:
        """Let both tables send them."""
        for table in self.table_join.tables:
            table.enable_sending_old_values(True)
        self.sends_old = True
        return True

    def other(self) -> TableOperator:
        """Return the table of the other side."""
        return self.table_join.tables[1 if self.left else 0]

    def __call__(self) -> Processor:
        """Return a new processor."""
        return TableJoinProcessor(self)


class TableJoinProcessor(Processor):
    """Joins each update with the other table's value now."""

    def __init__(self, side: TableJoinSide) -> None:
        self._side = side

    def init(self, context: Context) -> None:
        """Find the other table."""
        super().init(context)
        self._get = self._side.other().getter(context)

    def process(self, record: StreamRecord) -> None:
        """Forward the change of the join."""
        key, change, timestamp = record
        if key is None:
            self.context.drop(Dropped.NULL_KEY)
            return
        side, join = self._side, self._side.table_join
        entry = self._get(key)
        other = value_of(entry)
        needs_other = not join.left_outer or (not side.left and not join.right_outer)
        if other is None and (needs_other or (change.new is None and change.old is None)):
            return
        new = self._joined(key, change.new, other)
        old = self._joined(key, change.old, other) if side.sends_old else None
        timestamp = max(timestamp, UNKNOWN if entry is None else entry.timestamp)
        self.context.forward(StreamRecord(key, Change(new, old), timestamp))

    def _joined(self, key: Any, this: Any, other: Any) -> Any:
        left, right = (this, other) if self._side.left else (other, this)
        return self._side.table_join.join(key, left, right)


class TableJoinMerger(TableOperator):
    """The table that a join of tables makes; it may be materialised (KTableKTableJoinMerger)."""

    def __init__(
        self, join: TableJoin, sides: tuple[TableJoinSide, TableJoinSide], spec: StoreSpec | None
    ) -> None:
        self.stores = () if spec is None else (spec,)
        self._join, self._sides = join, sides

    def enable_sending_old_values(self, force: bool) -> bool:
        """Let both sides send them."""
        for side in self._sides:
            side.enable_sending_old_values(True)
        self.sends_old = True
        return True

    def store_names(self) -> tuple[str, ...]:
        """Return the store, or those of both tables."""
        both = [name for table in self._join.tables for name in table.store_names()]
        return super().store_names() or tuple(dict.fromkeys(both))

    def getter(self, context: Context) -> ValueGetter:
        """Return the lookup in the store, or over both tables."""
        if self.stores:
            return super().getter(context)
        left, right = (table.getter(context) for table in self._join.tables)

        def get(key: Any) -> ValueAndTimestamp | None:
            one, two = left(key), right(key)
            times = [entry.timestamp for entry in (one, two) if entry is not None]
            joined = self._join.join(key, value_of(one), value_of(two))
            return timestamped(joined, max(times, default=UNKNOWN))

        return get

    def __call__(self) -> Processor:
        """Return a new processor."""
        return TableJoinMergeProcessor(self)


class TableJoinMergeProcessor(TableProcessor[TableJoinMerger]):
    """Keeps and forwards the changes of both sides."""

    def process(self, record: StreamRecord) -> None:
        """Put and forward the change."""
        key, change, timestamp = record
        if self._store is not None:
            self._store.put(key, timestamped(change.new, timestamp))
            self._forwarder.update(key, change.new, change.old, timestamp)
        else:
            old = change.old if self._operator.sends_old else None
            self.context.forward(record._replace(value=Change(change.new, old)))
