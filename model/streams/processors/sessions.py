"""Aggregation of a stream by key and session (KStreamSessionWindowAggregate).

A record merges all sessions of its key that are within the gap. The merged ones are deleted, in
the store and downstream, before the new one is put. It is late if the session that it would make
ended more than gap and grace before the largest timestamp seen.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.processors.aggregates import Aggregator, Initializer
from kafkasim.model.streams.processors.context import Context, Dropped, Processor
from kafkasim.model.streams.processors.tables import Forwarder, TableOperator, ValueGetter
from kafkasim.model.streams.processors.windows import EmitTimer
from kafkasim.model.streams.records import UNKNOWN, Change, StreamRecord, Windowed, timestamped
from kafkasim.model.streams.topology.nodes import StoreSpec

Merger = Callable[[Any, Any, Any], Any]
"""A function of key and two aggregates; it returns that of the merged session."""


class SessionAggregate(TableOperator):
    """Aggregates by key and session. ``emit_final``: EmitStrategy.onWindowClose (KIP-825)."""

    def __init__(
        self,
        spec: StoreSpec,
        windows: Any,
        initializer: Initializer,
        aggregator: Aggregator,
        merger: Merger,
        emit_final: bool,
    ) -> None:
        """``windows`` are SessionWindows."""
        self.stores = (spec,)
        self.windows, self.emit_final = windows, emit_final
        self.initializer, self.aggregator, self.merger = initializer, aggregator, merger

    def __call__(self) -> Processor:
        """Return a new processor."""
        return SessionAggregateProcessor(self)

    def getter(self, context: Context) -> ValueGetter:
        """Return the lookup of a session's value; its time is the session's end."""
        store = context.store(self.stores[0].name)
        return lambda session: timestamped(store.get(session), session.end)


class SessionAggregateProcessor(Processor):
    """Merges sessions; with emit-on-window-close it forwards them once they have closed."""

    def __init__(self, operator: SessionAggregate) -> None:
        self._operator = operator
        self._observed_ms = UNKNOWN
        self._emitted_ms = UNKNOWN
        self._timer = EmitTimer()

    def init(self, context: Context) -> None:
        """Find the store, and up to which time sessions were emitted before."""
        super().init(context)
        name = self._operator.stores[0].name
        self._store = context.store(name)
        if self._operator.emit_final:
            known = context.metadata(name)
            self._emitted_ms = UNKNOWN if known is None else known
        else:
            self._forwarder = Forwarder(context, self._store, self._operator.sends_old)

    def process(self, record: StreamRecord) -> None:
        """Merge the record into the sessions of its key, then emit what has closed."""
        key, value, timestamp = record
        if key is None:
            self.context.drop(Dropped.NULL_KEY)
            return
        operator, windows = self._operator, self._operator.windows
        self._observed_ms = max(self._observed_ms, timestamp)
        close_ms = self._observed_ms - windows.grace_ms - windows.gap_ms
        new = Windowed(key, timestamp, timestamp, session=True)
        merged, aggregate = new, operator.initializer()
        found = self._store.find_sessions(key, timestamp - windows.gap_ms,
                                          timestamp + windows.gap_ms)  # fmt: skip
        for session, its in found:
            aggregate = operator.merger(key, aggregate, its)
            merged = Windowed(
                key, min(merged.start, session.start), max(merged.end, session.end), session=True
            )
        if merged.end < close_ms:
            self.context.drop(Dropped.EXPIRED_WINDOW, (merged.start, merged.end))
        else:
            if merged != new:
                for session, its in found:
                    self._store.remove(session)
                    self._forward(session, None, its)
            aggregate = operator.aggregator(key, value, aggregate)
            self._store.put(merged, aggregate)
            self._forward(merged, aggregate, None)
        if operator.emit_final:
            self._emit(close_ms)

    def _forward(self, session: Windowed, new: Any, old: Any) -> None:
        if not self._operator.emit_final:
            self._forwarder.update(session, new, old, session.end)

    def _emit(self, close_ms: int) -> None:
        if not self._timer.due(self.context.now_ms) or self._emitted_ms >= close_ms:
            return
        first, last = max(0, self._emitted_ms), close_ms - 1
        if last < 0 or last < first:
            return
        for session, its in self._store.find_ended(first, last):
            self.context.forward(StreamRecord(session, Change(its, None), session.end))
        self._emitted_ms = close_ms
        self.context.keep_metadata(self._operator.stores[0].name, close_ms)
