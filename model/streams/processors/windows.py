"""Aggregation of a stream by key and time window (KStreamWindowAggregate).

A record belongs to each window that contains its timestamp, unless the window has closed: its end
is at or before the largest timestamp seen less the grace. The operator remembers that time in
memory only, from −1 on, so it is shorter of memory than its store after the task has moved.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.streams.processors.aggregates import Aggregator, Initializer
from kafkasim.model.streams.processors.context import Context, Dropped, Processor
from kafkasim.model.streams.processors.tables import Forwarder, TableOperator, ValueGetter
from kafkasim.model.streams.records import (
    UNKNOWN,
    Change,
    StreamRecord,
    Windowed,
    timestamped,
    value_of,
)
from kafkasim.model.streams.topology.nodes import StoreSpec

EMIT_INTERVAL_MS = 1000
"""How often final results and unjoined records are looked for, by the wall clock.

__emit.interval.ms.kstreams.windowed.aggregation__ and __…outer.join.spurious.results.fix__.
"""


class EmitTimer:
    """Lets something happen at most once per interval of the wall clock (TimeTracker)."""

    def __init__(self) -> None:
        self._next_ms = 0

    def due(self, now_ms: int) -> bool:
        """Return whether the interval is over; the next one then begins."""
        if now_ms < self._next_ms:
            return False
        self._next_ms = now_ms + EMIT_INTERVAL_MS
        return True


class WindowAggregate(TableOperator):
    """Aggregates by key and window. ``emit_final``: EmitStrategy.onWindowClose (KIP-825)."""

    def __init__(
        self,
        spec: StoreSpec,
        windows: Any,
        initializer: Initializer,
        aggregator: Aggregator,
        emit_final: bool,
    ) -> None:
        """``windows`` are TimeWindows."""
        self.stores = (spec,)
        self.windows, self.emit_final = windows, emit_final
        self.initializer, self.aggregator = initializer, aggregator

    def __call__(self) -> Processor:
        """Return a new processor."""
        return WindowAggregateProcessor(self)

    def getter(self, context: Context) -> ValueGetter:
        """Return the lookup of a window's value."""
        store = context.store(self.stores[0].name)
        return lambda windowed: store.get(windowed.key, windowed.start)


class WindowAggregateProcessor(Processor):
    """Updates windows; with emit-on-window-close it forwards them once they have closed."""

    def __init__(self, operator: WindowAggregate) -> None:
        self._operator = operator
        self._observed_ms = UNKNOWN
        self._emitted_ms = UNKNOWN  # windows that end at or before this time were emitted
        self._timer = EmitTimer()

    def init(self, context: Context) -> None:
        """Find the store, and up to which time windows were emitted before."""
        super().init(context)
        operator = self._operator
        name = operator.stores[0].name
        self._store = context.store(name)
        if operator.emit_final:
            known = context.metadata(name)
            self._emitted_ms = UNKNOWN if known is None else known
        else:
            self._forwarder = Forwarder(context, self._store, operator.sends_old)

    def process(self, record: StreamRecord) -> None:
        """Update the record's windows, then emit what has closed."""
        if record.key is None:
            self.context.drop(Dropped.NULL_KEY)
            return
        windows = self._operator.windows
        self._observed_ms = max(self._observed_ms, record.timestamp)
        close_ms = self._observed_ms - windows.grace_ms
        for start in windows.windows_for(record.timestamp):
            if start + windows.size_ms > close_ms:
                self._update(record, start, start + windows.size_ms)
            else:
                window = (start, start + windows.size_ms)
                self.context.drop(Dropped.EXPIRED_WINDOW, window)
        if self._operator.emit_final:
            self._emit(close_ms)

    def _update(self, record: StreamRecord, start: int, end: int) -> None:
        key, value, timestamp = record
        operator = self._operator
        known = self._store.get(key, start)
        old = operator.initializer() if known is None else known.value
        if known is not None:
            timestamp = max(timestamp, known.timestamp)
        new = operator.aggregator(key, value, old)
        self._store.put(key, timestamped(new, timestamp), start)
        if not operator.emit_final:
            self._forwarder.update(Windowed(key, start, end), new, old, timestamp)

    def _emit(self, close_ms: int) -> None:
        if not self._timer.due(self.context.now_ms) or self._emitted_ms >= close_ms:
            return
        size, windows_for = self._operator.windows.size_ms, self._operator.windows.windows_for
        last = close_ms - size
        if last < 0:
            return
        first = 0 if self._emitted_ms == UNKNOWN else max(0, self._emitted_ms - size) + 1
        if self._emitted_ms != UNKNOWN and windows_for(last) == windows_for(first - 1):
            return
        for windowed, entry in self._store.fetch_all(first, last):
            change = Change(value_of(entry), None)
            self.context.forward(StreamRecord(windowed, change, entry.timestamp))
        self._emitted_ms = close_ms
        self.context.keep_metadata(self._operator.stores[0].name, close_ms)
