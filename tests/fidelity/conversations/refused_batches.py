"""Batches that a leader refuses for their records' times, their size or their checksum."""

from __future__ import annotations

from kafkasim.model import messages as m
from kafkasim.model.records import Record, RecordBatch, batch_of
from kafkasim.model.storage.log.segment import corrupted
from tests.fidelity.conversations.talk import Talk, batch, produce

LONG_AGO, TO_COME = 1, 1 << 45
"""Times in milliseconds: just after 1970, and in a thousand years."""

MEBIBYTE = 1 << 20


def at(timestamp_ms: int) -> RecordBatch:
    """Return a batch of one record of a time."""
    return batch_of((Record("key", 1, 20, timestamp_ms),))


def refused_batches(talk: Talk) -> None:
    aged = talk.create("aged", message_timestamp_before_max_ms="1")
    talk.ask("a time of long ago", produce(aged, at(LONG_AGO)))
    talk.ask("a time of long ago, acks=1", produce(aged, at(LONG_AGO), 1))
    talk.ask("a time of long ago, acks=0", produce(aged, at(LONG_AGO), 0))
    early = talk.create("early", message_timestamp_after_max_ms="60000")
    talk.ask("a time to come", produce(early, at(TO_COME)))
    talk.ask("a time of now", produce(early, batch(1)))
    talk.ask("a time to come, by default", produce(talk.create("timed"), at(TO_COME)))
    limits = {"message_timestamp_before_max_ms": "1", "message_timestamp_after_max_ms": "1"}
    stamped = talk.create("stamped", message_timestamp_type="LogAppendTime", **limits)
    talk.ask("a time of long ago where the broker sets it", produce(stamped, at(LONG_AGO)))
    talk.ask("a time to come where the broker sets it", produce(stamped, at(TO_COME)))
    bytes_ = {"segment_bytes": str(MEBIBYTE), "max_message_bytes": str(4 * MEBIBYTE)}
    small = talk.create("segments", **bytes_)
    big = batch_of(tuple(Record("key", 10**250, 260, 0) for _ in range(5000)))
    talk.ask("a batch over segment.bytes", produce(small, big))
    talk.ask("a batch over segment.bytes, acks=0", produce(small, big, 0))
    larger = batch_of(tuple(Record("key", 10**250, 260, 0) for _ in range(20_000)))
    talk.ask("a batch over both limits", produce(small, larger))
    talk.ask("no records", produce(small, batch_of(())))
    damaged = corrupted(batch(1))
    talk.ask("a damaged batch", produce(small, damaged))
    talk.ask("a damaged batch, acks=1", produce(small, damaged, 1))
    talk.ask("a damaged batch, acks=0", produce(small, damaged, 0))
    talk.ask("a damaged batch of a producer", produce(small, corrupted(batch(1, producer_id=7))))
    both = (m.ProducePartition(small, damaged), m.ProducePartition(early, batch(2)))
    talk.ask("a damaged batch beside another", m.ProduceRequest(-1, 5000, both))
