"""Batches as kafka-python's producer sends them, and what its consumer reads."""

from __future__ import annotations

from typing import Any

from kafka.record.default_records import DefaultRecordBatch, DefaultRecordBatchBuilder

NOW = 1_700_000_000_000

Row = tuple[bytes | None, bytes | None, list[tuple[str, bytes | None]]]
ROWS: list[Row] = [
    (b"k", b"v", []),
    (None, b"x" * 300, [("h", b"1"), ("empty", b""), ("null", None)]),
    (b"gone", None, [("why", b"deleted")]),
    (b"", b"", []),
]


def built(rows: list[Row], codec: int = 0, **producer: Any) -> bytes:
    """Return a batch as kafka-python's producer sends it."""
    who = {"producer_id": -1, "producer_epoch": -1, "base_sequence": -1, **producer}
    builder = DefaultRecordBatchBuilder(2, codec, is_transactional=False, batch_size=1 << 20, **who)
    for number, (key, value, headers) in enumerate(rows):
        assert builder.append(number, NOW + 7 * number, key, value, headers)
    return bytes(builder.build())


def read(data: bytes) -> list[tuple[int, int, bytes | None, bytes | None, Any]]:
    """Return what kafka-python's consumer reads from a batch whose CRC is right."""
    batch = DefaultRecordBatch(data)
    assert batch.validate_crc()
    return [(r.offset, r.timestamp, r.key, r.value, list(r.headers)) for r in batch]
