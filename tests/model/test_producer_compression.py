"""Compressed batches: their estimated and their real size, and what is learned from each."""

from __future__ import annotations

import zlib
from collections.abc import Sequence

import pytest

from kafkasim.model.client.producer.accumulator import RecordAccumulator
from kafkasim.model.client.producer.batches import ProducerBatch
from kafkasim.model.client.producer.compression import Packing
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.compression import STATED
from kafkasim.model.records import BATCH_OVERHEAD, Record
from kafkasim.scenarios.applications.records.compression import PayloadCompressor
from kafkasim.scenarios.applications.session import Payload, Payloads

BATCH = 1000


class Ratio:
    """A compressor whose ratio the test sets."""

    def __init__(self, value: float) -> None:
        self.value = value

    def ratio(self, _codec: str, _records: Sequence[Record]) -> float:
        return self.value


def accumulator(ratio: Ratio) -> RecordAccumulator:
    settings = {"compression.type": "gzip", "batch.size": BATCH}
    return RecordAccumulator(producer_config(settings), lambda _: None, ratio)


def filled(records: RecordAccumulator) -> ProducerBatch:
    """Append records of 100 bytes until one opens a new batch; return the batch before."""
    queue = records.queue("t", 0)
    first = None
    for value in range(200):
        batch = records.append(queue, None, -1, value, 93, 0, None, True, 0)
        assert batch is not None
        first = first or batch
        if batch is not first:
            break
    queue.batches.clear()
    assert first is not None
    return first


def test_the_first_batch_expects_no_gain_and_the_next_ones_a_little_more_each() -> None:
    records = accumulator(Ratio(0.5))
    counts, sizes = [], []
    for _ in range(3):
        batch = filled(records)
        counts.append(len(batch.records))
        sizes.append(batch.build().size - BATCH_OVERHEAD - batch.uncompressed // 2)
    assert sizes == [0, 0, 0]
    assert counts == [8, 8, 8]  # the estimate has come down to 0.985 only
    for _ in range(120):
        batch = filled(records)
        batch.build()
    assert len(batch.records) == 16


def test_a_batch_that_compresses_worse_raises_the_estimate_at_once() -> None:
    ratio = Ratio(0.2)
    packing = Packing("gzip", ratio)
    told = []
    for value in (0.2, 0.2, 1.0, 0.2):
        ratio.value = value
        packing.pack("t", (), 100)
        told.append(round(packing.estimate("t"), 3))
    assert told == [0.995, 0.99, 1.04, 1.035]


def test_a_batch_may_weigh_more_than_was_expected_and_parts_expect_no_gain() -> None:
    """RecordAccumulator.splitAndReenqueue sets the estimate to 1 or worse."""
    ratio = Ratio(0.1)
    records = accumulator(ratio)
    for _ in range(200):
        batch = filled(records)
        batch.build()
    batch = filled(records)
    ratio.value = 1.1
    assert batch.build().size > 4 * BATCH
    parts = records.split(batch, BATCH)
    assert sum(len(part.records) for part in parts) == len(batch.records)
    assert max(part.size for part in parts) <= BATCH
    ratio.value = 0.1
    assert len(filled(records).records) <= 8


@pytest.mark.parametrize("codec", STATED)
def test_the_bytes_of_applications_records_are_compressed(codec: str) -> None:
    payloads = Payloads()
    compressor = PayloadCompressor(payloads)
    text = b'{"account": "Zoe", "change": 7}' * 40
    payloads.keep(1, Payload(text, (("source", b"a"),)))
    records = (Record("k", 1, 1300, 0),)
    ratio = compressor.ratio(codec, records)
    assert 0.01 < ratio < 0.2
    if codec == "gzip":
        data = b"k" + text + b"sourcea"
        assert ratio == (len(zlib.compress(data, 6)) + 12) / len(data)
    assert compressor.ratio(codec, (*records, Record("k", 2, 100, 0))) == STATED[codec]
