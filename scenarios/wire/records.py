"""Record batches of magic 2 as bytes, and as the model's batches (DefaultRecordBatch).

The model sees of a client's record its key, its timestamp, its size and whether it has a value. The
bytes stay beside it: the record's id carries the batch as it was received. A fetch answers with
these bytes, with base offset and leader epoch stamped into them; the CRC does not cover the two.
A batch that the log cleaner or LogAppendTime has changed is built again from its records.

The id of a record follows from the bytes of its batch, so that a replay finds the same. In a batch
of an idempotent producer it grows with the sequence number, and a batch that is sent again has the
same ids.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

from crc32c import crc32c

from kafkasim.model.facts.names import OUTSIDE
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    Tombstone,
    TopicPartition,
    has_value,
    offsets_of,
)
from kafkasim.model.storage.log.segment import CorruptBatch
from kafkasim.scenarios.wire.compression import decompress
from kafkasim.scenarios.wire.internal import KAFKAS_BYTES
from kafkasim.scenarios.wire.varints import read_signed, write_signed

_HEADER = struct.Struct(">qiibIhiqqqhii")
_OFFSET = struct.Struct(">q")
_EPOCH, _CRC, _ATTRIBUTES, _MAX_TIMESTAMP = 12, 17, 21, 35  # positions in the header
_LENGTH_END = 12  # what stands before the part that the length counts
_CODEC, _LOG_APPEND_TIME, _TRANSACTIONAL, _CONTROL, _HORIZON = 7, 0x08, 0x10, 0x20, 0x40
_COUNT_BITS = 17
_NULL = 1  # the length −1 as a varint


class Received:
    """A batch as its client sent it."""

    __slots__ = ("count", "data", "first_id", "max_timestamp_ms")

    def __init__(self, data: bytes, count: int, first_id: int, max_timestamp_ms: int) -> None:
        self.data, self.count, self.first_id = data, count, first_id
        self.max_timestamp_ms = max_timestamp_ms


class RecordId(int):
    """The id of a client's record with a value; ``received`` is its batch."""

    received: Received


class TombstoneId(Tombstone):
    """The id of a client's record without a value."""

    received: Received


def decoded(data: bytes | None, tp: TopicPartition) -> RecordBatch:
    """Return the model's batch of a partition of Produce.

    A batch with a wrong CRC, or whose records cannot be read, is a CorruptBatch. What
    ProduceRequest.validateRecords refuses with INVALID_RECORD has no records: no batch, more than
    one, another magic.
    """
    if data is None or len(data) < _HEADER.size:
        return _refused(RecordBatch, 0)
    (
        _, length, _, magic, crc, attributes, last, first_ms, max_ms, producer_id, producer_epoch,
        sequence, count,
    ) = _HEADER.unpack_from(data)  # fmt: skip
    if magic != 2 or _LENGTH_END + length != len(data):
        return _refused(RecordBatch, len(data))
    if crc32c(memoryview(data)[_ATTRIBUTES:]) != crc:
        return _refused(CorruptBatch, len(data))
    first_id = _first_id(tp, crc, max_ms, producer_id, producer_epoch, sequence)
    received = Received(data, count, first_id, max_ms)
    try:
        body = decompress(attributes & _CODEC, data[_HEADER.size :])
        records = _walked(body, received, first_ms)
    except (ValueError, IndexError):
        return _refused(CorruptBatch, len(data))
    if last != count - 1:
        return _refused(RecordBatch, len(data))
    return RecordBatch(
        -1, last - 1, -1, producer_id, producer_epoch, sequence, records, len(data), max_ms,
        bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL),
    )  # fmt: skip


def _refused(kind: type[RecordBatch], size: int) -> RecordBatch:
    return kind(-1, -2, -1, -1, -1, -1, (), size, -1)


def _first_id(
    tp: TopicPartition, crc: int, max_ms: int, producer_id: int, epoch: int, sequence: int
) -> int:
    """Return the id of a batch's first record; those of the others follow it."""
    if producer_id >= 0 and sequence >= 0:
        sender = zlib.crc32(f"{tp} {producer_id} {epoch}".encode()) & 0x3FFFFFFF
        return OUTSIDE | sender << 31 | sequence
    batch = zlib.crc32(f"{tp} {max_ms}".encode()) & 0xFFF
    return OUTSIDE | 1 << 61 | (batch << 32 | crc) << _COUNT_BITS


def _walked(body: bytes, received: Received, first_ms: int) -> tuple[Record, ...]:
    """Return the records of a body; their keys are bytes.

    Raises:
        IndexError, ValueError: the body is damaged.
    """
    records, at, number = [], 0, received.first_id
    for _ in range(received.count):
        start = at
        length, at = read_signed(body, at)
        end = at + length
        at += 1  # the attributes
        byte = body[at]
        if byte < 0x80:  # most varints have one byte, and the loop is as fast as this is
            timestamp, at = (byte >> 1) ^ -(byte & 1), at + 1
        else:
            timestamp, at = read_signed(body, at)
        while body[at] >= 0x80:  # the offset delta
            at += 1
        at += 1
        byte = body[at]
        key = None
        if byte == _NULL:
            at += 1
        else:
            size, at = read_signed(body, at)
            if size < 0:
                raise ValueError(f"a key of {size} bytes")
            key = body[at : at + size]
            at += size
        if not at < end <= len(body) or len(key or b"") > end - start:
            raise ValueError("a record ends outside of its batch")
        record_id = (TombstoneId if body[at] == _NULL else RecordId)(number)
        record_id.received = received
        records.append(Record(key, record_id, end - start, first_ms + timestamp))
        number += 1
        at = end
    if at != len(body) or not records:
        raise ValueError("the records are longer or shorter than their batch")
    return tuple(records)


def encoded(batch: RecordBatch) -> bytes:
    """Return a batch of a log as bytes, as Fetch answers with it."""
    records = batch.records
    received = getattr(records[0].value, "received", None) if records else None
    if received is None or batch.control or batch.offset_deltas is not None:
        return _built(batch)
    if received.count != len(records) or batch.delete_horizon_ms >= 0:
        return _built(batch)
    out = bytearray(received.data)
    _OFFSET.pack_into(out, 0, batch.base_offset)
    struct.pack_into(">i", out, _EPOCH, batch.leader_epoch)
    if batch.max_timestamp_ms != received.max_timestamp_ms:  # LogAppendTime
        (attributes,) = struct.unpack_from(">h", out, _ATTRIBUTES)
        struct.pack_into(">h", out, _ATTRIBUTES, attributes | _LOG_APPEND_TIME)
        _OFFSET.pack_into(out, _MAX_TIMESTAMP, batch.max_timestamp_ms)
        struct.pack_into(">I", out, _CRC, crc32c(memoryview(out)[_ATTRIBUTES:]))
    return bytes(out)


def _built(batch: RecordBatch) -> bytes:
    """Return a batch made of its records, without compression."""
    records = batch.records
    horizon = batch.delete_horizon_ms
    base_ms = horizon if horizon >= 0 else records[0].timestamp_ms if records else -1
    body = bytearray()
    contents: dict[int, list[bytes]] = {}
    for offset, record in zip(offsets_of(batch), records, strict=True):
        row = bytearray(1)
        write_signed(row, record.timestamp_ms - base_ms)
        write_signed(row, offset - batch.base_offset)
        received = getattr(record.value, "received", None)
        if received is None:
            row += _content(record)
        else:
            first = received.first_id
            if first not in contents:
                contents[first] = _contents(received)
            row += contents[first][record.value - first]
        write_signed(body, len(row))
        body += row
    attributes = _TRANSACTIONAL * batch.transactional | _CONTROL * batch.control
    attributes |= _HORIZON if horizon >= 0 else 0
    tail = struct.pack(
        ">hiqqqhii", attributes, batch.last_offset - batch.base_offset, base_ms,
        batch.max_timestamp_ms, batch.producer_id, batch.producer_epoch, batch.base_sequence,
        len(records),
    ) + body  # fmt: skip
    crc = crc32c(tail) ^ isinstance(batch, CorruptBatch)
    head = struct.pack(">qiibI", batch.base_offset, len(tail) + 9, batch.leader_epoch, 2, crc)
    return head + tail


def _contents(received: Received) -> list[bytes]:
    """Return of each record of a batch its key, value and headers, as they were received."""
    (attributes,) = struct.unpack_from(">h", received.data, _ATTRIBUTES)
    body = decompress(attributes & _CODEC, received.data[_HEADER.size :])
    found, at = [], 0
    for _ in range(received.count):
        length, at = read_signed(body, at)
        end = at + length
        _, at = read_signed(body, at + 1)
        _, at = read_signed(body, at)
        found.append(body[at:end])
        at = end
    return found


def _content(record: Record) -> bytes:
    """Return key, value and headers of a record of the model's own.

    The value of a workload's record is its id in decimal. Records of internal topics are objects of
    the model (:mod:`.internal`); where Kafka's bytes are left out, their text stands in.
    """
    key, value = record.key, record.value
    if isinstance(value, EndTransactionMarker):
        key = struct.pack(">hh", 0, int(value.committed))
        value = struct.pack(">hi", 0, value.coordinator_epoch)
    elif not has_value(record):
        value = None
    out = bytearray()
    for each in (key, value):
        data = _bytes(each)
        write_signed(out, -1 if data is None else len(data))
        out += data or b""
    out.append(0)
    return bytes(out)


def _bytes(item: Any) -> bytes | None:
    if item is None or isinstance(item, bytes):
        return item
    made = KAFKAS_BYTES.get(type(item))
    if made is not None:
        return made(item)
    return (str(int(item)) if isinstance(item, int) else str(item)).encode()
