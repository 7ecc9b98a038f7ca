"""Joins of a stream with a stream or a table (KStreamKStreamJoin, KStreamKTableJoin)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.processors.context import Context, Dropped, Processor
from kafkasim.model.streams.processors.tables import TableOperator
from kafkasim.model.streams.processors.windows import EmitTimer
from kafkasim.model.streams.records import UNKNOWN, JoinSideKey, StreamRecord, value_of
from kafkasim.model.streams.topology.nodes import StoreSpec

Joiner = Callable[[Any, Any, Any], Any]
"""A function of key, left value and right value."""

FOREVER = (1 << 63) - 1


class JoinWindowProcessor(Processor):
    """Forward a record to the join, then keep it for the other side (KStreamJoinWindow)."""

    def __init__(self, store: str) -> None:
        self._store_name = store

    def init(self, context: Context) -> None:
        """Find the store."""
        super().init(context)
        self._store = context.store(self._store_name)

    def process(self, record: StreamRecord) -> None:
        """Forward and keep the record; one without key is not kept."""
        self.context.forward(record)
        if record.key is not None:
            self._store.put(record.key, record.value, record.timestamp)


class JoinClock:
    """What the two sides of a join share in a task (TimeTracker; one per task: KAFKA-14862)."""

    def __init__(self) -> None:
        self.stream_time_ms = UNKNOWN
        self.min_time_ms = FOREVER  # of the records that wait for a partner
        self.timer = EmitTimer()


class StreamJoin:
    """A join of two streams: what both of its processors need to know."""

    def __init__(
        self,
        name: str,
        windows: Any,
        joiner: Joiner,
        stores: tuple[StoreSpec, StoreSpec],
        waiting: StoreSpec | None,
        outer: bool,
    ) -> None:
        """``windows`` are JoinWindows; ``stores`` are those of the left and the right side;
        ``waiting`` holds what has no partner yet, of a left or outer join."""
        self.name, self.windows, self.joiner = name, windows, joiner
        self.stores, self.waiting, self.outer = stores, waiting, outer

    def side(self, left: bool) -> Processor:
        """Return a new processor of one side."""
        return StreamJoinProcessor(self, left)


class StreamJoinProcessor(Processor):
    """One side of a join: looks up the other side's store.

    A record without a partner waits until its window and the grace have passed (KAFKA-10847).
    That is looked for only when a record reaches the shared stream time, and at most once per
    second of the wall clock. If the window is over already, the result goes out at once.
    """

    def __init__(self, join: StreamJoin, left: bool) -> None:
        windows = join.windows
        self._join, self._left = join, left
        self._before_ms = windows.before_ms if left else windows.after_ms
        self._after_ms = windows.after_ms if left else windows.before_ms
        self._outer = join.waiting is not None and (left or join.outer)

    def init(self, context: Context) -> None:
        """Find the stores and the clock that both sides share."""
        super().init(context)
        join = self._join
        self._other = context.store(join.stores[1 if self._left else 0].name)
        holds = join.waiting is not None and context.rules.holds_unjoined()
        self._waiting: Any = context.store(join.waiting.name) if join.waiting and holds else None
        self._clock: JoinClock = context.shared(join.name, JoinClock)

    def process(self, record: StreamRecord) -> None:
        """Emit unjoined records whose time has come, then join this one."""
        key, value, timestamp = record
        clock = self._clock
        clock.stream_time_ms = max(clock.stream_time_ms, timestamp)
        if self._outer and key is None and value is not None:
            self._forward(key, value, None, timestamp)
            return
        if key is None or value is None:
            self.context.drop(Dropped.NULL_KEY_OR_VALUE)
            return
        if timestamp == clock.stream_time_ms and self._waiting is not None:
            self._emit_unjoined()
        first, last = max(0, timestamp - self._before_ms), max(0, timestamp + self._after_ms)
        found = self._other.fetch(key, first, last)
        for other_time, other in found:
            if self._waiting is not None:
                self._waiting.delete_if_present(JoinSideKey(other_time, not self._left, key))
            self._forward(key, value, other, max(timestamp, other_time))
        if self._outer and not found:
            if self._waiting is None or last < clock.stream_time_ms:
                self._forward(key, value, None, timestamp)
            else:
                clock.min_time_ms = min(clock.min_time_ms, timestamp)
                self._waiting.append(JoinSideKey(timestamp, self._left, key), value)

    def _forward(self, key: Any, this: Any, other: Any, timestamp: int) -> None:
        left, right = (this, other) if self._left else (other, this)
        joined = self._join.joiner(key, left, right)
        self.context.forward(StreamRecord(key, joined, timestamp))

    def _emit_unjoined(self) -> None:
        clock, windows = self._clock, self._join.windows
        # With nothing waiting, Kafka's sum overflows: the timer then begins anew all the same.
        look_back_ms = self._after_ms + windows.grace_ms
        overflows = clock.min_time_ms + look_back_ms > FOREVER
        if not overflows and clock.min_time_ms + look_back_ms >= clock.stream_time_ms:
            return
        if not clock.timer.due(self.context.now_ms):
            return
        clock.min_time_ms = FOREVER
        left_open = right_open = False
        emitted: list[JoinSideKey] = []
        for key, values in self._waiting.all():
            clock.min_time_ms = key.timestamp
            if left_open and right_open:
                break
            opens_ms = windows.after_ms if key.left else windows.before_ms
            if key.timestamp + opens_ms + windows.grace_ms >= clock.stream_time_ms:
                left_open, right_open = left_open or key.left, right_open or not key.left
                continue
            if emitted:
                self._waiting.delete(emitted[-1])
            for value in values:
                left, right = (value, None) if key.left else (None, value)
                joined = self._join.joiner(key.key, left, right)
                self.context.forward(StreamRecord(key.key, joined, key.timestamp))
            emitted.append(key)
        if emitted:
            self._waiting.delete(emitted[-1])


class StreamTableJoinProcessor(Processor):
    """Look up the table's value of a record's key now; updates of the table emit nothing."""

    def __init__(self, table: TableOperator, joiner: Joiner, left: bool) -> None:
        self._table, self._joiner, self._is_left = table, joiner, left

    def init(self, context: Context) -> None:
        """Find the table."""
        super().init(context)
        self._get = self._table.getter(context)

    def process(self, record: StreamRecord) -> None:
        """Join the record; a left join also emits it if the table has no value."""
        key, value, timestamp = record
        if value is None or (key is None and not self._is_left):
            self.context.drop(Dropped.NULL_KEY_OR_VALUE)
            return
        other = None if key is None else value_of(self._get(key))
        if self._is_left or other is not None:
            joined = self._joiner(key, value, other)
            self.context.forward(StreamRecord(key, joined, timestamp))
