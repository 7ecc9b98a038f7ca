"""Compressed batches: what a batch will weigh, and what it weighs (CompressionRatioEstimator).

While a batch is open, its size is an estimate: the bytes of its records times the ratio that its
topic's batches have lately reached, and 5 % more (MemoryRecordsBuilder.estimatedBytesWritten). When
it is drained it is compressed, and its ratio moves the estimate: up at once, down in small steps.
So a batch may turn out larger than batch.size, and be split (MESSAGE_TOO_LARGE).

What records compress to is for a :class:`~kafkasim.model.compression.Compressor` to say. A leader
whose topic has a compression.type of its own compresses the batch again (LogValidator).
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.model.compression import Compressor, compressed_size
from kafkasim.model.records import BATCH_OVERHEAD, Record

ESTIMATION_FACTOR = 1.05
"""MemoryRecordsBuilder.COMPRESSION_RATE_ESTIMATION_FACTOR."""
IMPROVING_STEP = 0.005
"""How far the estimate goes down with a batch that compresses better."""
DETERIORATE_STEP = 0.05
"""How far the estimate goes up at least with a batch that compresses worse."""


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
        return compressed_size(uncompressed, observed)

    def expect_no_gain(self, topic: str, ratio: float) -> None:
        """Estimate no gain any more: a batch was too large for its leader (splitAndReenqueue)."""
        self._estimates[topic] = max(1.0, ratio)


def estimated_size(uncompressed: int, estimate: float) -> int:
    """Return the size of an open batch (MemoryRecordsBuilder.estimatedBytesWritten)."""
    return BATCH_OVERHEAD + int(uncompressed * estimate * ESTIMATION_FACTOR)
