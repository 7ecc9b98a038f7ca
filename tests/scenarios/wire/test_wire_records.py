"""Record batches: bytes of kafka-python's builder, and what comes out of the model again."""

from __future__ import annotations

import dataclasses
import gzip
import random
import struct

import pyarrow as pa
import pytest
from crc32c import crc32c
from kafka.record.default_records import DefaultRecordBatch

from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    Tombstone,
    TopicPartition,
    assigned,
    batch_of,
    end_transaction_marker,
    has_value,
)
from kafkasim.model.storage.log.segment import CorruptBatch
from kafkasim.model.storage.log.validation import stamped
from kafkasim.scenarios.wire import compression
from kafkasim.scenarios.wire.compression import decompress
from kafkasim.scenarios.wire.records import decoded, encoded
from tests.scenarios.wire.batches import NOW, ROWS, built, read

TP = TopicPartition("orders", 0)


@pytest.mark.parametrize("codec", [0, 1])
def test_bytes_go_out_as_they_came_in_with_offset_and_epoch(codec: int) -> None:
    data = built(ROWS, codec)
    batch = decoded(data, TP)
    assert [(r.key, has_value(r)) for r in batch.records] == [
        (k, v is not None) for k, v, _ in ROWS
    ]
    assert [r.timestamp_ms for r in batch.records] == [NOW, NOW + 7, NOW + 14, NOW + 21]
    out = encoded(assigned(batch, 1000, 5))
    assert out == struct.pack(">q", 1000) + data[8:12] + struct.pack(">i", 5) + data[16:]
    assert [row[2:] for row in read(out)] == [(k, v, h) for k, v, h in ROWS]
    assert [row[0] for row in read(out)] == [1000, 1001, 1002, 1003]


def test_the_model_counts_the_bytes_that_a_record_takes() -> None:
    data = built(ROWS)
    batch = decoded(data, TP)
    assert batch.size == len(data) == 61 + sum(record.size for record in batch.records)


def test_a_wrong_checksum_is_corrupt_and_two_batches_are_none() -> None:
    data = built(ROWS)
    damaged = data[:-1] + bytes([data[-1] ^ 1])
    assert type(decoded(damaged, TP)) is CorruptBatch
    for refused in (b"", None, data + data, data[:16] + b"\1" + data[17:]):
        batch = decoded(refused, TP)
        assert type(batch) is RecordBatch
        assert batch.records == ()


def test_records_that_cannot_be_read_are_corrupt_even_if_their_checksum_is_right() -> None:
    rng, kinds = random.Random(4), []
    data = built(ROWS)
    for _ in range(300):
        bad = bytearray(data)
        bad[rng.randrange(61, len(bad))] = rng.getrandbits(8)
        struct.pack_into(">I", bad, 17, crc32c(bytes(bad[21:])))
        kinds.append(type(decoded(bytes(bad), TP)))
    assert CorruptBatch in kinds
    assert RecordBatch in kinds


def test_a_record_of_negative_length_ends_the_walk() -> None:
    """Else a count of 2^31 would go round and round in a few bytes."""
    data = bytearray(built(ROWS))
    data[61] = 3  # a length of −2
    struct.pack_into(">i", data, 57, 2**31 - 1)
    struct.pack_into(">I", data, 17, crc32c(bytes(data[21:])))
    assert type(decoded(bytes(data), TP)) is CorruptBatch


def test_ids_follow_from_the_bytes_and_grow_with_the_sequence() -> None:
    first = decoded(built(ROWS, producer_id=9, producer_epoch=0, base_sequence=0), TP)
    again = decoded(built(ROWS, producer_id=9, producer_epoch=0, base_sequence=0), TP)
    later = decoded(built(ROWS, producer_id=9, producer_epoch=0, base_sequence=4), TP)
    ids = [int(record.value) for batch in (first, later) for record in batch.records]
    assert ids == list(range(ids[0], ids[0] + 8))
    assert first.records == again.records
    plain = decoded(built(ROWS), TP).records
    other = decoded(built(ROWS[:2]), TP).records
    assert len(dict.fromkeys(int(r.value) for r in (*plain, *other))) == 6


def test_log_append_time_stamps_the_bytes() -> None:
    batch = assigned(stamped(decoded(built(ROWS), TP), NOW + 500), 3, 0)
    rows = read(encoded(batch))
    assert [row[1] for row in rows] == [NOW + 500] * 4
    assert [row[2:] for row in rows] == [(k, v, h) for k, v, h in ROWS]


@pytest.mark.parametrize("codec", [0, 1])
def test_a_cleaned_batch_keeps_values_and_headers(codec: int) -> None:
    batch = assigned(decoded(built(ROWS, codec), TP), 10, 2)
    kept = dataclasses.replace(
        batch, records=(batch.records[1], batch.records[3]), offset_deltas=(1, 3)
    )
    found = read(encoded(kept))
    assert found == [(11, NOW + 7, None, *ROWS[1][1:]), (13, NOW + 21, b"", b"", [])]


def test_a_marker_is_a_control_batch_that_clients_know() -> None:
    marker = end_transaction_marker(5, 1, EndTransactionMarker(True, 3), NOW)
    batch = DefaultRecordBatch(encoded(assigned(marker, 77, 3)))
    assert batch.validate_crc()
    assert batch.is_control_batch
    assert batch.is_transactional
    (record,) = list(batch)
    assert (record.offset, record.key, record.value) == (77, b"\0\0\0\1", b"\0\0\0\0\0\3")


@pytest.mark.parametrize(("codec", "name"), [(2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_arrow_reads_what_clients_compress(codec: int, name: str) -> None:
    plain = built(ROWS)
    body = pa.compress(plain[61:], name, asbytes=True)
    if name == "snappy":
        block = struct.pack(">i", len(body)) + body
        assert decompress(codec, b"\x82SNAPPY\0" + bytes(8) + block + block) == plain[61:] * 2
    head = bytearray(plain[:61])
    struct.pack_into(">i", head, 8, 49 + len(body))
    struct.pack_into(">h", head, 21, codec)
    struct.pack_into(">I", head, 17, crc32c(bytes(head[21:]) + body))
    batch = decoded(bytes(head) + body, TP)
    assert [r.key for r in batch.records] == [key for key, _, _ in ROWS]
    assert encoded(assigned(batch, 0, 0))[61:] == body


def test_records_of_simulated_workloads_are_numbers() -> None:
    records = (Record(b"k", 1 << 32 | 7, 20, NOW), Record("text", Tombstone(8), 20, NOW + 1))
    rows = read(encoded(assigned(batch_of(records), 0, 0)))
    assert [row[2:4] for row in rows] == [(b"k", b"4294967303"), (b"text", None)]


def test_a_bomb_and_an_unknown_codec_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compression, "UNCOMPRESSED_MAX", 1 << 16)
    bombs = [
        (1, gzip.compress(bytes(1 << 17))),
        *[
            (codec, pa.compress(bytes(1 << 17), name, asbytes=True))
            for codec, name in ((3, "lz4"), (4, "zstd"))
        ],
        (2, b"\x80\x80\x10" + b"x"),
    ]
    damaged = [(5, b"x"), (1, b"x"), (2, b"\xff"), (3, b"x"), (4, b"x")]
    for codec, data in [*bombs, *damaged]:
        with pytest.raises(ValueError, match=r"batch|codec"):
            decompress(codec, data)
