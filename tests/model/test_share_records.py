"""Records of share groups at both ends: aborted ones, what a member holds and says (KIP-932).

Sources: SharePartition.fetchAbortedTransactionRecordBatches and
filterRecordBatchesFromAcquiredRecords, ShareCompletedFetch, Acknowledgements of Kafka 4.1.0.
"""

from __future__ import annotations

import pytest

from kafkasim.model.client.consumer.share.acknowledgements import batches_of, merge
from kafkasim.model.client.consumer.share.fetched import InFlight, ShareCompletedFetch
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartitionResponse
from kafkasim.model.messages.share import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    AcknowledgementBatch,
    AcquiredRecords,
    SharePartitionResponse,
)
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    TopicPartition,
    assigned,
    batch_of,
)
from tests.stateful.test_share_partition_stateful import Shares

NONE = Errors.NONE
TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
KEY, OTHER_KEY = ("T", TP), ("T", OTHER)


def _data(base: int, last: int, producer: int = -1) -> RecordBatch:
    records = tuple([Record(None, 100 + each, 10, 0) for each in range(base, last + 1)])
    batch = batch_of(records, producer_id=producer, transactional=producer >= 0)
    return assigned(batch, base, 0)


def _marker(offset: int, producer: int, committed: bool = False) -> RecordBatch:
    record = Record(None, EndTransactionMarker(committed, 0), 17, 0)
    batch = batch_of((record,), producer_id=producer, transactional=True, control=True)
    return assigned(batch, offset, 0)


# ------------------------------------------------------------------------------------- aborted

ACROSS = (_data(0, 1), _data(2, 3, 7), _data(4, 5, 8), _marker(6, 7), _data(7, 8, 7))


@pytest.mark.parametrize(
    ("read", "aborted", "size", "acquired"),
    [
        (ACROSS, (), 100, [(0, 8)]),
        (ACROSS, ((7, 2),), 100, [(0, 1), (4, 8)]),  # behind its marker it is another transaction
        (ACROSS, ((7, 2),), 1, [(0, 1), (4, 5), (6, 6), (7, 8)]),
        (ACROSS, ((8, 4), (7, 2)), 100, [(0, 1), (6, 8)]),
        (ACROSS, ((7, 7),), 100, [(0, 6)]),  # begins behind the marker
        (ACROSS, ((7, 9),), 100, [(0, 8)]),  # begins behind all that was read
        (
            (_data(0, 3, 7), _marker(4, 7, True), _data(5, 6, 7)),
            ((7, 0),),
            100,
            [],
        ),  # a commit ends none
        ((_data(0, 3, 7),), ((7, 0),), 100, []),
    ],
)
def test_records_of_aborted_transactions_are_archived_and_cut_out(
    read: tuple[RecordBatch, ...],
    aborted: tuple[tuple[int, int], ...],
    size: int,
    acquired: list[tuple[int, int]],
) -> None:
    share = Shares().share
    answer = FetchPartitionResponse(TP, NONE, 9, 9, 0, read, aborted_transactions=aborted)
    found = share.acquire("a", size, 100, 0, answer, 0)
    assert [(each.first_offset, each.last_offset) for each in found] == acquired
    held = {offset for first, last in acquired for offset in range(first, last + 1)}
    for offset in range(read[-1].last_offset + 1):
        batch = share.cache.floor(offset)
        state = None if batch is None else batch.state_at(offset)
        assert state is not None
        assert state.state.name == ("ACQUIRED" if offset in held else "ARCHIVED")
        assert (state.lock is not None) == (offset in held)


# --------------------------------------------------------------------------- ShareCompletedFetch


def _fetch(*batches: RecordBatch, held: tuple[tuple[int, int, int], ...]) -> ShareCompletedFetch:
    acquired = tuple([AcquiredRecords(*each) for each in held])
    return ShareCompletedFetch(
        1, SharePartitionResponse(TP, "T", NONE, batches=batches, acquired=acquired)
    )


def test_a_member_takes_whole_batches_of_what_it_holds() -> None:
    fetch = _fetch(_data(0, 3), _data(4, 5), held=((1, 2, 1), (4, 5, 3)))
    assert fetch.take(1) == ([(1, 101, None, 0, 1), (2, 102, None, 0, 1)], [])
    assert not fetch.consumed
    assert fetch.take(1) == ([(4, 104, None, 0, 3), (5, 105, None, 0, 3)], [])
    assert (fetch.consumed, fetch.take(1)) == (True, ([], []))


def test_offsets_without_a_record_and_markers_are_gaps() -> None:
    fetch = _fetch(_data(1, 2), _marker(3, 7), held=((0, 4, 1),))
    records, gaps = fetch.take(10)
    assert ([record[0] for record in records], gaps) == ([1, 2], [0, 3, 4])


def test_gaps_behind_the_last_record_of_a_poll_come_with_the_next() -> None:
    records = tuple([Record(None, 100 + each, 10, 0) for each in range(2)])
    thinned = RecordBatch(0, 4, 0, -1, -1, -1, records, 100, 0, offset_deltas=(1, 3))
    fetch = _fetch(thinned, _data(5, 6), held=((0, 6, 1),))
    assert [fetch.take(1) for _ in range(2)] == [
        ([(1, 100, None, 0, 1), (3, 101, None, 0, 1)], [0, 2]),
        ([(5, 105, None, 0, 1), (6, 106, None, 0, 1)], [4]),
    ]


def test_of_a_second_response_the_gaps_and_the_node_are_forgotten() -> None:
    """ShareInFlightBatch.merge."""
    flight = InFlight()
    flight.add(KEY, 1, [(0, 100, None, 0, 1)], [1])
    flight.add(KEY, 2, [(3, 103, None, 0, 1)], [2])
    flight.acknowledge_all(ACCEPT)
    assert flight.take_acknowledged() == {1: {KEY: {1: GAP, 0: ACCEPT, 3: ACCEPT}}}


def test_what_is_acknowledged_goes_to_the_node_that_gave_it() -> None:
    flight = InFlight()
    flight.add(KEY, 1, [(0, 100, None, 0, 1), (1, 101, None, 0, 1)], [2])
    flight.add(OTHER_KEY, 2, [(7, 107, None, 0, 1)], [])
    assert flight.acknowledge(KEY, 1, REJECT)
    assert not flight.acknowledge(KEY, 2, ACCEPT)  # a gap is no record
    assert not flight.acknowledge(("T", TopicPartition("orders", 2)), 0, ACCEPT)
    assert flight.take_acknowledged() == {1: {KEY: {2: GAP, 1: REJECT}}}
    assert list(flight.records()) == [KEY, OTHER_KEY]
    flight.acknowledge_all(ACCEPT)
    assert not flight.is_empty
    assert flight.take_acknowledged() == {1: {KEY: {0: ACCEPT}}, 2: {OTHER_KEY: {7: ACCEPT}}}
    assert flight.is_empty
    assert (flight.records(), flight.take_acknowledged()) == ({}, {})


# ------------------------------------------------------------------------------ Acknowledgements

A, L, R = ACCEPT, RELEASE, REJECT


@pytest.mark.parametrize(
    ("types", "batches"),
    [
        ({}, []),
        ({4: A}, [(4, 4, (A,))]),
        ({5: A, 4: A}, [(4, 5, (A,))]),
        ({4: A, 5: L, 6: R}, [(4, 6, (A, L, R))]),
        ({4: A, 6: A, 7: R}, [(4, 4, (A,)), (6, 7, (A, R))]),
        # Ten of one type beside others stay in one batch, eleven are one of their own.
        (dict.fromkeys(range(10), A) | {10: R}, [(0, 10, (A,) * 10 + (R,))]),
        (dict.fromkeys(range(11), A) | {11: R}, [(0, 10, (A,)), (11, 11, (R,))]),
        (
            {0: R, 1: L} | dict.fromkeys(range(2, 13), A) | {13: R, 14: R},
            [(0, 1, (R, L)), (2, 12, (A,)), (13, 14, (R,))],
        ),
    ],
)
def test_acknowledgements_go_in_as_few_batches_as_their_types_allow(
    types: dict[int, int], batches: list[tuple[int, int, tuple[int, ...]]]
) -> None:
    assert batches_of(types) == tuple([AcknowledgementBatch(*each) for each in batches])


def test_the_later_acknowledgement_of_an_offset_counts() -> None:
    into = {KEY: {0: RELEASE, 1: ACCEPT}}
    merge(into, {KEY: {0: ACCEPT}, OTHER_KEY: {3: GAP}})
    assert into == {KEY: {0: ACCEPT, 1: ACCEPT}, OTHER_KEY: {3: GAP}}
