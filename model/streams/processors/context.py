"""What a processor is, and what it sees of its task (Processor, ProcessorContext).

A processor runs on one task's thread of control: `process` and punctuators run to completion, and
what they forward is processed, depth first, before `forward` returns.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Protocol

from kafkasim.model.streams.processors.rules import OperatorRules
from kafkasim.model.streams.records import RecordContext, StreamRecord


class PunctuationType(Enum):
    """What moves the time of a punctuator."""

    STREAM_TIME = "stream-time"  # records; it fires first with the first record
    WALL_CLOCK_TIME = "wall-clock-time"  # the clock; it fires first after one interval


class StreamsFailure(Exception):
    """An operator or a user's processor failed: the thread's exception handler decides."""


class Dropped(Enum):
    """Why an operator dropped a record (dropped-records-total)."""

    NULL_KEY = "null-key"
    NULL_KEY_OR_VALUE = "null-key-or-value"
    EXPIRED_WINDOW = "expired-window"  # it is late: the window has closed
    EXPIRED_SEGMENT = "expired-segment"  # it is older than the retention of a store
    DESERIALIZATION = "deserialization"  # the handler of deserialization exceptions continues


Punctuator = Callable[[int], None]
"""Called with the time in ms at which it fires."""


class Cancellable(Protocol):
    """A scheduled punctuator."""

    def cancel(self) -> None:
        """Let it not fire again."""
        ...


class Context(Protocol):
    """What a processor may know and cause; each node of a task has its own."""

    @property
    def task_id(self) -> str:
        """The task: subtopology and partition, as `0_3`."""
        ...

    @property
    def node(self) -> str:
        """The name of the processor's node."""
        ...

    @property
    def rules(self) -> OperatorRules:
        """The rules of operators."""
        ...

    @property
    def record_context(self) -> RecordContext | None:
        """The input record that is being processed; None while no record or punctuator runs."""
        ...

    @property
    def stream_time_ms(self) -> int:
        """The largest timestamp that the task has taken from its queues, −1 before the first."""
        ...

    @property
    def now_ms(self) -> int:
        """The wall clock when the task began to process the record (currentSystemTimeMs)."""
        ...

    def forward(self, record: StreamRecord, child: str | None = None) -> None:
        """Hand a record to all children in the order of the topology, or to one by its name."""
        ...

    def at(self, context: RecordContext | None, record: StreamRecord) -> None:
        """Forward a record as part of an earlier input record (setRecordContext)."""
        ...

    def store(self, name: str) -> Any:
        """Return a store that is connected to this processor (getStateStore)."""
        ...

    def schedule(
        self, interval_ms: int, kind: PunctuationType, callback: Punctuator
    ) -> Cancellable:
        """Call a punctuator again and again; what it forwards begins at this processor."""
        ...

    def drop(self, why: Dropped, window: tuple[int, int] | None = None) -> None:
        """Report that the current record, or its part in a window, was dropped."""
        ...

    def metadata(self, key: str) -> int | None:
        """Return what was kept with the committed offsets (processorMetadataForKey)."""
        ...

    def keep_metadata(self, key: str, value: int) -> None:
        """Keep a number with the next committed offsets (addProcessorMetadataKeyValue)."""
        ...

    def shared(self, key: str, make: Callable[[], Any]) -> Any:
        """Return an object that this task's processors share, made by the first that asks."""
        ...


class Processor:
    """An operator's part in one task. Subclasses fill in `process`."""

    context: Context

    def init(self, context: Context) -> None:
        """Begin: stores are restored. Called once, in the order of the topology."""
        self.context = context

    def process(self, record: StreamRecord) -> None:
        """Take one record; forward any number."""
        raise NotImplementedError

    def close(self) -> None:
        """End: the task is closed or suspended."""


Supplier = Callable[[], Processor]
"""Makes the processor of each task (ProcessorSupplier)."""
