"""A processor that passes records on, and forwards one more whenever a punctuator fires."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.processors.context import Context, Processor, PunctuationType
from kafkasim.model.streams.records import StreamRecord


class PunctuateProcessor(Processor):
    """Forwards key and value that follow from the time at which the punctuator fires."""

    def __init__(
        self,
        kind: PunctuationType,
        every_ms: int,
        key: Callable[[int], Any] | None,
        value: Callable[[int], Any],
    ) -> None:
        self._kind, self._every_ms, self._key, self._value = kind, every_ms, key, value

    def init(self, context: Context) -> None:
        """Schedule the punctuator."""
        super().init(context)
        context.schedule(self._every_ms, self._kind, self._punctuate)

    def process(self, record: StreamRecord) -> None:
        """Pass the record on."""
        self.context.forward(record)

    def _punctuate(self, time_ms: int) -> None:
        key = None if self._key is None else self._key(time_ms)
        self.context.forward(StreamRecord(key, self._value(time_ms), time_ms))
