"""Builders for the tests of the log cleaner."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import TopicConfig
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    Tombstone,
    batch_of,
    end_transaction_marker,
    offsets_of,
)
from kafkasim.model.storage.cleaner.cleanable import log_to_clean
from kafkasim.model.storage.cleaner.cleaner import Cleaning
from kafkasim.model.storage.cleaner.offset_map import BYTES_PER_ENTRY, OffsetMap
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.log.validation import AppendOrigin

SIZE = 40


def compacted(**properties: Any) -> TopicConfig:
    """Settings of a compacted topic whose segments hold two batches of one record."""
    defaults: dict[str, Any] = {
        "cleanup_policy": "compact", "segment_bytes": 210, "delete_retention_ms": 1000,
        "message_timestamp_after_max_ms": 2**62,
    }  # fmt: skip
    return TopicConfig(**{**defaults, **properties})


def record(key: str, number: int | None, at_ms: int = 1000) -> Record:
    """A record with an id; a negative one is a tombstone's."""
    value = Tombstone(-number) if number is not None and number < 0 else number
    return Record(key, value, SIZE, at_ms)


def keyed(*pairs: tuple[str, int | None], at_ms: int = 1000, **producer: Any) -> RecordBatch:
    """A batch of records, from keys and ids."""
    return batch_of(tuple([record(key, number, at_ms) for key, number in pairs]), **producer)


def append(log: UnifiedLog, *pairs: tuple[str, int | None], at_ms: int = 1000) -> None:
    """Append one batch that is committed at once."""
    commit(log, keyed(*pairs, at_ms=at_ms), at_ms=at_ms)


def commit(log: UnifiedLog, batch: RecordBatch, at_ms: int = 1000) -> None:
    """Append a batch, and replicate it."""
    result = log.append_as_leader(batch, 0, at_ms, AppendOrigin.COORDINATOR)
    assert result.batch is not None, result
    log.update_high_watermark(log.log_end_offset)


def marker(log: UnifiedLog, producer: int, committed: bool, epoch: int = 0) -> None:
    """End a producer's transaction."""
    commit(log, end_transaction_marker(producer, epoch, EndTransactionMarker(committed, 0), 1000))


def clean(
    log: UnifiedLog,
    checkpoint: int | None = None,
    now_ms: int = 10_000,
    slots: int = 100,
    load_factor: float = 1.0,
) -> int:
    """Clean a log as a thread does, the disk answering at once; return the next dirty offset."""
    to_clean = log_to_clean(log, checkpoint, now_ms)
    cleaning = Cleaning(to_clean, OffsetMap(slots * BYTES_PER_ENTRY), load_factor, now_ms)
    while not cleaning.done:
        cleaning.swap(cleaning.write_group())
    return cleaning.end_offset


def content(log: UnifiedLog) -> list[tuple[int, Any, Any]]:
    """All data records as (offset, key, id)."""
    return [
        (offset, each.key, each.value)
        for segment in log.segments
        for batch in segment.batches
        if not batch.control
        for offset, each in zip(offsets_of(batch), batch.records, strict=True)
    ]


def batches(log: UnifiedLog) -> list[tuple[int, int, int]]:
    """All batches as (base offset, last offset, number of records)."""
    return [
        (batch.base_offset, batch.last_offset, len(batch.records))
        for segment in log.segments
        for batch in segment.batches
    ]
