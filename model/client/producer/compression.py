"""Compressed batches: what a batch will weigh, and what it weighs (CompressionRatioEstimator).

While a batch is open, its size is an estimate: the bytes of its records times the ratio that its
topic's batches have lately reached, and 5 % more (MemoryRecordsBuilder.estimatedBytesWritten). When
it is drained it is compressed, and its ratio moves the estimate: up at once, down in small steps.
So a batch may turn out larger than batch.size, and be split (MESSAGE_TOO_LARGE).

What records compress to is for a :class:`Compressor` to say: the model holds no bytes. A batch
stays as its producer packed it, as with the topic's compression.type=producer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kafkasim.model.records import BATCH_OVERHEAD, Record

ESTIMATION_FACTOR = 1.05
"""MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR."""
IMPROVING_STEP = 0.005
"""How far the estimate goes down with a batch that compresses better."""
DETERIORATE_STEP = 0.05
"""How far the estimate goes up at least with a batch that compresses worse."""

STATED: Mapping[str, float] = {"gzip": 0.35, "snappy": 0.55, "lz4": 0.5, "zstd": 0.33}
"""Ratios of records without bytes, by codec: those of JSON events, roughly."""


class Compressor(Protocol):
    """What says how well records compress."""

    def ratio(self, codec: str, records: Sequence[Record]) -> float:
        """Return the bytes of compressed records divided by the bytes of the records."""
        ...


class StatedRatios:
    """A compressor for records that are sizes only."""

    def ratio(self, codec: str, _records: Sequence[Record]) -> float:
        """Return the codec's stated ratio."""
        return STATED[codec]


class Packing:
    """How one producer compresses: its codec, and the estimates by topic."""

    def __init__(self, codec: str, compressor: Compressor) -> None:
        self._codec = codec
        self._compressor = compressor
        self._estimates: dict[str, float] = {}

    def estimate(self, topic: str) -> float:
        """Return the estimated ratio of a topic's next batch; the first one counts as 1."""
        return self._estimates.get(topic, 1.0)

    def pack(self, topic: str, records: Sequence[Record], uncompressed: int) -> int:
        """Return the size of a batch whose records have ``uncompressed`` bytes; learn from it."""
        observed = self._compressor.ratio(self._codec, records)
        before = self.estimate(topic)
        if observed > before:
            self._estimates[topic] = max(before + DETERIORATE_STEP, observed)
        elif observed < before:
            self._estimates[topic] = max(before - IMPROVING_STEP, observed)
        return BATCH_OVERHEAD + int(uncompressed * observed)

    def expect_no_gain(self, topic: str, ratio: float) -> None:
        """Estimate no gain any more: a batch was too large for its leader (splitAndReenqueue)."""
        self._estimates[topic] = max(1.0, ratio)


def estimated_size(uncompressed: int, estimate: float) -> int:
    """Return the size of an open batch (MemoryRecordsBuilder.estimatedBytesWritten)."""
    return BATCH_OVERHEAD + int(uncompressed * estimate * ESTIMATION_FACTOR)
