"""suppress(): hold back updates until a window closes or some time is over.

Models KTableSuppressProcessorSupplier. Only records move its time, so nothing leaves while none
arrives.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.streams.processors.context import (
    Context,
    Processor,
    StreamsFailure,
)
from kafkasim.model.streams.processors.tables import TableOperator, ValueGetter
from kafkasim.model.streams.records import UNKNOWN, StreamRecord, timestamped
from kafkasim.model.streams.topology.nodes import StoreSpec


class Suppress(TableOperator):
    """A table whose updates wait. ``until_close``: for window ends, and deletions are dropped."""

    def __init__(
        self, spec: StoreSpec, suppressed: Any, wait_ms: int, parent: TableOperator
    ) -> None:
        """``suppressed`` is a Suppressed; ``wait_ms`` the grace, or the time limit."""
        self.stores = (spec,)
        self.suppressed, self.wait_ms = suppressed, wait_ms
        self.until_close = suppressed.time_limit_ms is None
        self._parent = parent
        parent.enable_sending_old_values(True)

    def enable_sending_old_values(self, force: bool) -> bool:
        """Let the parent send them."""
        return self._parent.enable_sending_old_values(force)

    def store_names(self) -> tuple[str, ...]:
        """Return the buffer and the stores of the parent."""
        return (self.stores[0].name, *self._parent.store_names())

    def getter(self, context: Context) -> ValueGetter:
        """Return the lookup of the value that was last emitted."""
        buffer, parent = context.store(self.stores[0].name), self._parent.getter(context)

        def get(key: Any) -> Any:
            buffered = buffer.prior(key)
            return parent(key) if buffered is None else timestamped(buffered.prior, UNKNOWN)

        return get

    def __call__(self) -> Processor:
        """Return a new processor."""
        return SuppressProcessor(self)


class SuppressProcessor(Processor):
    """Buffers updates and lets them go in the order of their times."""

    def __init__(self, operator: Suppress) -> None:
        self._operator = operator
        self._observed_ms = UNKNOWN

    def init(self, context: Context) -> None:
        """Find the buffer."""
        super().init(context)
        self._buffer = context.store(self._operator.stores[0].name)

    def process(self, record: StreamRecord) -> None:
        """Buffer the update; let go what has waited long enough, or does not fit.

        Raises:
            StreamsFailure: the buffer is full, and was to stop the application then.
        """
        operator, buffer = self._operator, self._buffer
        self._observed_ms = max(self._observed_ms, record.timestamp)
        buffer.put(record.key.end if operator.until_close else record.timestamp, record)
        while buffer.min_timestamp <= self._observed_ms - operator.wait_ms:
            self._emit_first()
        if not self._is_over_capacity():
            return
        if not operator.suppressed.emit_early:
            raise StreamsFailure(
                f"{self.context.node} buffer exceeded its max capacity. Currently "
                f"[{len(buffer)}/{operator.suppressed.max_records}] records and "
                f"[{buffer.size_bytes}/{operator.suppressed.max_bytes}] bytes."
            )
        while self._is_over_capacity():
            self._emit_first()

    def _is_over_capacity(self) -> bool:
        records, size = self._operator.suppressed.max_records, self._operator.suppressed.max_bytes
        too_many = records is not None and len(self._buffer) > records
        return too_many or (size is not None and self._buffer.size_bytes > size)

    def _emit_first(self) -> None:
        key, buffered = self._buffer.first()
        if buffered.change.new is not None or not self._operator.until_close:
            context = buffered.context
            self.context.at(context, StreamRecord(key, buffered.change, context.timestamp))
        self._buffer.evict(key)
