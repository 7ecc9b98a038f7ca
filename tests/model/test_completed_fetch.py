"""What a consumer returns of the batches that it fetched (CompletedFetch): markers and aborted
records are passed over."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasim.model.client.consumer.completed_fetch import CompletedFetch
from kafkasim.model.client.consumer.subscription import TopicPartitionState
from kafkasim.model.errors import NONE
from kafkasim.model.messages import FetchPartition, FetchPartitionResponse
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    batch_of,
    end_transaction_marker,
)
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.storage.log.unified_log import UnifiedLog
from tests.model.storage_support import RECORD_BYTES, TP, config, make_log
from tests.model.test_storage_transactions import COORDINATOR, end, send


def asked(offset: int) -> FetchPartition:
    return FetchPartition(TP, "topic-id", offset, -1, 0, -1, 1 << 20)


def fetched(
    log: UnifiedLog, offset: int, committed: bool = True, max_bytes: int = 1 << 20
) -> CompletedFetch:
    """What the leader answers to a fetch, as FetchReader does."""
    bound = log.last_stable_offset if committed else log.high_watermark
    batches = log.read(offset, max_bytes, bound)
    aborted: tuple[tuple[int, int], ...] = ()
    if committed and batches:
        found = log.local.aborted_transactions(offset, batches[-1].next_offset)
        aborted = tuple([(each.producer_id, each.first_offset) for each in found])
    response = FetchPartitionResponse(
        TP,
        NONE,
        log.high_watermark,
        log.last_stable_offset,
        log.log_start_offset,
        batches,
        aborted_transactions=aborted,
    )
    return CompletedFetch(TopicPartitionState(TP), asked(offset), response)


def offsets(fetch: CompletedFetch, limit: int = 500) -> list[int]:
    return [record[0] for record in fetch.take(limit)]


@pytest.fixture
def log() -> UnifiedLog:
    """0: aborted, 1: committed, 2: ABORT of 0, 3: next of the producer of 0, 4: plain; ends."""
    made = make_log()
    send(made, 1, 0)
    send(made, 2, 0)
    end(made, 1, committed=False)
    send(made, 1, 1)
    made.append_as_leader(batch_of((Record(None, 4, RECORD_BYTES, 0),)), 0, 0)
    end(made, 2)
    end(made, 1)
    made.update_high_watermark(7)
    return made


def test_aborted_records_and_markers_are_not_returned(log: UnifiedLog) -> None:
    fetch = fetched(log, 0)
    assert (offsets(fetch), fetch.next_offset, fetch.consumed) == ([1, 3, 4], 7, True)


def test_read_uncommitted_returns_aborted_records_but_no_markers(log: UnifiedLog) -> None:
    fetch = fetched(log, 0, committed=False)
    assert (offsets(fetch), fetch.next_offset) == ([0, 1, 3, 4], 7)


def test_fetch_may_begin_inside_an_aborted_transaction(log: UnifiedLog) -> None:
    assert offsets(fetched(log, 2)) == [3, 4]


def test_position_advances_over_what_is_skipped(log: UnifiedLog) -> None:
    fetch = fetched(log, 0)
    seen = []
    while not fetch.consumed:
        seen.append((offsets(fetch, 1), fetch.next_offset))
    assert seen == [([1], 2), ([3], 4), ([4], 5), ([], 7)]


def test_the_epoch_of_a_position_is_that_of_the_batch_before_it_also_of_a_marker() -> None:
    """lastEpoch of nextFetchedRecord: the next leader's log may end lower in the record's epoch."""
    log = make_log()
    send(log, 1, 0)
    marker = end_transaction_marker(1, 0, EndTransactionMarker(True, 0), 0)
    log.append_as_leader(marker, 3, 0, COORDINATOR, 0)
    log.update_high_watermark(2)
    fetch = fetched(log, 0)
    assert (offsets(fetch, 1), fetch.state.offset_epoch) == ([0], 0)
    assert (offsets(fetch, 1), fetch.state.offset_epoch, fetch.next_offset) == ([], 3, 2)


def test_a_gap_behind_the_last_record_of_a_poll_is_passed_by_the_next() -> None:
    """nextFetchedRecord: the position of what is polled is that of a commit."""
    records = (Record(None, 0, 10, 0), Record(None, 1, 10, 0))
    first = RecordBatch(0, 4, 0, -1, -1, -1, records, 100, 0, offset_deltas=(0, 1))
    last = RecordBatch(5, 9, 1, -1, -1, -1, (), 60, 0, offset_deltas=())
    response = FetchPartitionResponse(TP, NONE, 10, 10, 0, (first, last))
    fetch = CompletedFetch(TopicPartitionState(TP), asked(0), response)
    seen = [(offsets(fetch, 2), fetch.next_offset, fetch.consumed) for _ in range(2)]
    assert seen == [([0, 1], 2, False), ([], 10, True)]


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 10**9), st.integers(1, 60), st.integers(60, 500), st.integers(1, 4))
def test_reader_gets_exactly_the_decided_records_that_were_not_aborted(
    seed: int, steps: int, max_bytes: int, limit: int
) -> None:
    """ATOMIC, for one reader: whatever the sizes of fetches, polls and segments are."""
    rng = random.Random(seed)
    log = make_log(MemoryFiles(), config(segment_bytes=400))
    opened: dict[int, list[int]] = {}  # by producer, the offsets of its open transaction
    sequences = dict.fromkeys((1, 2, 3), 0)
    committed: list[int] = []
    for _ in range(steps):
        pid, offset = rng.choice((1, 2, 3)), log.log_end_offset
        kind = rng.random()
        if kind < 0.5:
            assert send(log, pid, sequences[pid]).error is NONE
            sequences[pid] += 1
            opened.setdefault(pid, []).append(offset)
        elif kind < 0.7:
            log.append_as_leader(batch_of((Record(None, 0, RECORD_BYTES, 0),)), 0, 0)
            committed.append(offset)
        else:
            commits = rng.random() < 0.5
            assert end(log, pid, committed=commits) is NONE
            of_transaction = opened.pop(pid, [])
            committed += of_transaction if commits else []
    log.update_high_watermark(log.log_end_offset)
    stable = min([each[0] for each in opened.values()], default=log.log_end_offset)
    assert log.last_stable_offset == stable

    read: list[int] = []
    position = 0
    while position < stable:
        fetch = fetched(log, position, max_bytes=max_bytes)
        while not fetch.consumed:
            read += offsets(fetch, limit)
        assert fetch.next_offset > position
        position = fetch.next_offset
    assert read == sorted(offset for offset in committed if offset < stable)
