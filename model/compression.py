"""What records compress to, for producers and for leaders that recompress (compression.type).

The model holds no bytes: a :class:`Compressor` says how well records compress, and a batch has the
size that follows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from kafkasim.model.records import BATCH_OVERHEAD, Record

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


STATED_RATIOS = StatedRatios()


def compressed_size(uncompressed: int, ratio: float) -> int:
    """Return the size in bytes of a batch whose records have ``uncompressed`` bytes."""
    return BATCH_OVERHEAD + int(uncompressed * ratio)
