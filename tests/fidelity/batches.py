"""Record batches of magic 2 as bytes (DefaultRecordBatch, DefaultRecord): built, and read back."""

from __future__ import annotations

import struct
import time

from kafkasim.model.records import Record, RecordBatch
from kafkasim.model.storage.log.segment import CorruptBatch

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20


def crc32c(data: bytes) -> int:
    """Return the CRC-32C (Castagnoli) of some bytes."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = _CRC_TABLE[(crc ^ byte) & 0xFF] ^ (crc >> 8)
    return crc ^ 0xFFFFFFFF


def _table() -> list[int]:
    table = []
    for index in range(256):
        crc = index
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        table.append(crc)
    return table


_CRC_TABLE = _table()


def encoded(batch: RecordBatch) -> bytes:
    """Return a client's batch as it goes over the wire; a record's value is its id in decimal.

    Records without a timestamp are of now, on the wall: retention would delete older ones in the
    middle of a run. The records of a batch are of one time. A damaged batch has a wrong checksum.
    """
    timestamp_ms = batch.records[0].timestamp_ms if batch.records else 0
    timestamp_ms = timestamp_ms or time.time_ns() // 1_000_000
    records = b"".join(_record(i, record) for i, record in enumerate(batch.records))
    attributes = _TRANSACTIONAL if batch.transactional else 0
    last_delta = len(batch.records) - 1
    body = struct.pack(
        ">hiqqqhii",
        attributes,
        last_delta,
        timestamp_ms,
        timestamp_ms,
        batch.producer_id,
        batch.producer_epoch,
        batch.base_sequence,
        len(batch.records),
    )
    after_crc = body + records
    damage = 1 if isinstance(batch, CorruptBatch) else 0
    head = struct.pack(">ibI", -1, 2, crc32c(after_crc) ^ damage)
    return struct.pack(">qi", 0, len(head) + len(after_crc)) + head + after_crc


def decoded(data: bytes) -> tuple[RecordBatch, ...]:
    """Return the batches of a fetch answer; values that are no number are left out of records."""
    found, at = [], 0
    while at + 12 <= len(data):
        base, size = struct.unpack_from(">qi", data, at)
        if at + 12 + size > len(data):
            break  # a partial batch at the end, as Kafka sends
        found.append(_batch(base, data[at : at + 12 + size]))
        at += 12 + size
    return tuple(found)


def _batch(base_offset: int, data: bytes) -> RecordBatch:
    _, _, epoch, _, _, attributes, last, _, newest, pid, pid_epoch, sequence, count = (
        _HEADER.unpack_from(data)
    )
    at, records = _HEADER.size, []
    for _ in range(count):
        size, at = _read_varint(data, at)
        records.append(_read_record(data[at : at + size]))
        at += size
    return RecordBatch(
        base_offset, base_offset + last, epoch, pid, pid_epoch, sequence, tuple(records), len(data),
        newest, bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL),
    )  # fmt: skip


def _record(delta: int, record: Record) -> bytes:
    key = record.key.encode() if record.key is not None else None
    value = None if record.value is None else str(record.value).encode()
    body = b"\x00" + _varint(0) + _varint(delta) + _sized(key) + _sized(value) + _varint(0)
    return _varint(len(body)) + body


def record_size(delta: int, record: Record) -> int:
    """Return the bytes of a record, at a distance from its batch's base offset."""
    return len(_record(delta, record))


def _read_record(data: bytes) -> Record:
    at = 1
    _, at = _read_varint(data, at)
    _, at = _read_varint(data, at)
    size, at = _read_varint(data, at)
    at += max(size, 0)
    size, at = _read_varint(data, at)
    text = None if size < 0 else data[at : at + size].decode(errors="replace")
    return Record(None, int(text) if text and text.isdigit() else text, len(data), 0)


def _sized(data: bytes | None) -> bytes:
    return _varint(-1) if data is None else _varint(len(data)) + data


def _varint(number: int) -> bytes:
    zigzag = (number << 1) ^ (number >> 63)
    out = bytearray()
    while zigzag >= 0x80:
        out.append(zigzag & 0x7F | 0x80)
        zigzag >>= 7
    out.append(zigzag)
    return bytes(out)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        number |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1), at
