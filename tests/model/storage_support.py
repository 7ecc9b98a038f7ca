"""Builders for the tests of the storage layer."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.records import Record, RecordBatch, TopicPartition, assigned, batch_of
from kafkasim.model.storage.files import Files, MemoryFiles
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules

TP = TopicPartition("orders", 0)
RECORD_BYTES = 39  # with the header of a batch: 100


def config(**properties: Any) -> TopicConfig:
    return TopicConfig(**properties)


def make_log(
    files: Files | None = None,
    settings: TopicConfig | None = None,
    rules: StorageRules | None = None,
    **checkpoints: Any,
) -> UnifiedLog:
    """A log over ``files`` with an outbox of its own; effects of its creation are dropped."""
    log = UnifiedLog(
        MemoryFiles() if files is None else files,
        [],
        "orders-0",
        TP,
        "topic-id",
        settings or TopicConfig(),
        rules or StorageRules(),
        **checkpoints,
    )
    log.out.clear()
    return log


def batch(
    *ids: int, pid: int = -1, epoch: int = -1, sequence: int = -1, timestamp: int = 1000
) -> RecordBatch:
    """A batch of records with these ids, as a client sends it."""
    if pid >= 0:
        epoch = max(epoch, 0)
    records = tuple([Record(None, number, RECORD_BYTES, timestamp) for number in ids])
    return batch_of(records, producer_id=pid, producer_epoch=epoch, base_sequence=sequence)


def at(offset: int, epoch: int, *ids: int, timestamp: int = 1000) -> RecordBatch:
    """A batch as a leader has written it."""
    return assigned(batch(*ids, timestamp=timestamp), offset, epoch)


def fill(log: UnifiedLog, count: int, epoch: int = 0, timestamp: int = 1000) -> None:
    """Append ``count`` batches of one record each, whose ids are their offsets."""
    for _ in range(count):
        log.append_as_leader(batch(log.log_end_offset, timestamp=timestamp), epoch, timestamp)


def record_ids(log: UnifiedLog) -> list[tuple[int, object]]:
    """All records as (offset, id)."""
    return [
        (found.base_offset + index, record.value)
        for found in log.batches_from(log.segments[0].base_offset)
        for index, record in enumerate(found.records)
    ]


def flushed(log: UnifiedLog) -> None:
    """Let the flushes in the outbox succeed, and clear it."""
    effects = list(log.out)
    log.out.clear()
    for effect in effects:
        if isinstance(effect, Flush):
            effect.handler(None, 0)


def barriers(log: UnifiedLog) -> list[tuple[str, ...]]:
    """The files of the barriers in the outbox."""
    return [effect.files for effect in log.out if isinstance(effect, Barrier)]
