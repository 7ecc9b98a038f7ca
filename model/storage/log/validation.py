"""What a leader checks in a client's batch, and how it stamps the batch (Kafka: LogValidator).

Left out: old formats. The CRC of a batch from the network is not checked: the
network is TCP, which damages nothing.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from kafkasim.model.compression import Compressor, compressed_size
from kafkasim.model.config import TopicConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import NO_TIMESTAMP, Record, RecordBatch
from kafkasim.model.storage.log.segment import CorruptBatch
from kafkasim.model.values import value


class AppendOrigin(Enum):
    """Who made a batch that a leader appends (AppendOrigin); decides what is checked."""

    CLIENT = "client"
    COORDINATOR = "coordinator"  # the records of a group or a transaction; markers
    RAFT_LEADER = "raft-leader"


@value
class AppendResult:
    """The outcome of an append. Offsets are −1 and ``batch`` is None when nothing was appended;
    of a duplicate, the offsets are those of the batch already in the log."""

    error: Errors
    batch: RecordBatch | None
    base_offset: int
    last_offset: int
    duplicate: bool = False
    log_append_time_ms: int = NO_TIMESTAMP  # with LogAppendTime; of a duplicate its own timestamp


def invalid(batch: RecordBatch, compacted: bool) -> Errors:
    """Return the error of a client's batch, or NONE; a compacted topic needs keys."""
    if isinstance(batch, CorruptBatch):
        return Errors.CORRUPT_MESSAGE
    if batch.control or not batch.records:
        return Errors.INVALID_RECORD
    if batch.producer_id >= 0 and batch.base_sequence < 0:
        return Errors.INVALID_RECORD
    if compacted:
        for record in batch.records:
            if record.key is None:
                return Errors.INVALID_RECORD
    return NONE


def out_of_range(batch: RecordBatch, now_ms: int, config: TopicConfig) -> Errors:
    """Return INVALID_TIMESTAMP if a record is too far from the broker's clock, or NONE.

    The limits are message.timestamp.before.max.ms and message.timestamp.after.max.ms; they apply to
    CreateTime only.
    """
    if config.message_timestamp_type == "CreateTime":
        before, after = (
            config.message_timestamp_before_max_ms,
            config.message_timestamp_after_max_ms,
        )
        for record in batch.records:
            if record.timestamp_ms >= 0 and not (-after <= now_ms - record.timestamp_ms <= before):
                return Errors.INVALID_TIMESTAMP
    return NONE


def stamped(batch: RecordBatch, now_ms: int) -> RecordBatch:
    """Return the batch with all timestamps set to the time of the append (LogAppendTime)."""
    return RecordBatch(
        batch.base_offset,
        batch.last_offset,
        batch.leader_epoch,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        tuple([Record(record.key, record.value, record.size, now_ms) for record in batch.records]),
        batch.size,
        now_ms,
        batch.transactional,
        batch.control,
        batch.offset_deltas,
    )


def recompressed(batch: RecordBatch, compression_type: str, compressor: Compressor) -> RecordBatch:
    """Return a client's batch as the topic's compression.type has it; it is not "producer".

    A batch that has that codec already keeps its size (LogValidator, in-place assignment), and so
    does it here: its producer compressed the same records.
    """
    uncompressed = sum([record.size for record in batch.records])
    plain = compression_type == "uncompressed"
    ratio = 1.0 if plain else compressor.ratio(compression_type, batch.records)
    return replace(batch, size=compressed_size(uncompressed, ratio))
