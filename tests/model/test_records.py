"""Sizes and sequences of record batches; kafka-python's encoder is the oracle of the sizes."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.util import size_of_varint

from kafkasim.model.records import (
    BATCH_OVERHEAD,
    MAX_SEQUENCE,
    Record,
    add_sequence,
    assigned,
    batch_of,
    record_size,
    varint_size,
)

sizes = st.one_of(st.just(-1), st.integers(0, 200), st.sampled_from([8191, 8192, 20_000]))


@settings(max_examples=100, deadline=None)
@given(st.lists(st.tuples(sizes, sizes, st.integers(0, 100_000)), min_size=1, max_size=5))
def test_a_batch_is_as_large_as_kafka_python_encodes_it(rows: list[tuple[int, int, int]]) -> None:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=False,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1 << 30,
    )
    records = []
    first = 1_000_000
    for delta, (key, value, later) in enumerate(rows):
        timestamp = first + (later if delta else 0)
        body = [None if size < 0 else bytes(size) for size in (key, value)]
        builder.append(delta, timestamp, body[0], body[1], [])
        records.append(
            Record(None, None, record_size(key, value, delta, timestamp - first), timestamp)
        )
    assert batch_of(tuple(records)).size == len(builder.build())


@given(st.integers(-(2**62), 2**62))
def test_varints_are_as_long_as_kafka_pythons(number: int) -> None:
    assert varint_size(number) == size_of_varint(number)


def test_an_empty_batch_is_its_header() -> None:
    assert batch_of(()).size == BATCH_OVERHEAD


@pytest.mark.parametrize(
    ("sequence", "increment", "expected"),
    [(0, 1, 1), (MAX_SEQUENCE, 0, MAX_SEQUENCE), (MAX_SEQUENCE, 1, 0), (MAX_SEQUENCE - 1, 5, 3)],
)
def test_sequences_wrap_to_zero(sequence: int, increment: int, expected: int) -> None:
    assert add_sequence(sequence, increment) == expected


def test_the_leader_assigns_offsets_and_epoch() -> None:
    records = tuple(Record(None, i, 10, 5) for i in range(3))
    batch = batch_of(records, producer_id=7, producer_epoch=1, base_sequence=MAX_SEQUENCE)
    written = assigned(batch, 40, 6)
    assert (
        written.base_offset,
        written.last_offset,
        written.next_offset,
        written.leader_epoch,
        written.last_sequence,
        written.size,
        written.max_timestamp_ms,
    ) == (40, 42, 43, 6, 1, BATCH_OVERHEAD + 30, 5)
    assert batch_of(records).last_sequence == -1
