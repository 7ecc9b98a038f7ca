"""Each error of a share partition, by SharePartition.java of Kafka 4.1.0 (KIP-932)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartitionResponse
from kafkasim.model.messages.share import (
    ACCEPT,
    REJECT,
    RELEASE,
    AcknowledgementBatch,
    ReadStateResult,
    StateBatch,
)
from kafkasim.model.records import Record, assigned, batch_of
from kafkasim.model.replication.share.partition.share_partition import SharePartition
from kafkasim.model.replication.share.partition.states import SharePartitionState
from tests.stateful.test_share_partition_stateful import TP, Context, FakePersister, Shares

NONE = Errors.NONE


class SlowPersister(FakePersister):
    """A persister whose read waits for its answer."""

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Any] = []

    def read_state(self, *args: Any) -> None:
        self.reads.append(args[-1])


class Starting(Context):
    """A broker at which a share group begins."""

    def __init__(self, reset: int | Errors = 0) -> None:
        super().__init__(SlowPersister())
        self.reset = reset
        self.answers: list[Errors] = []
        self.share = SharePartition(self, "g", "id", TP, 3)

    def reset_offset(self, *_: Any) -> int | Errors:
        return self.reset

    def initialize(self) -> None:
        self.share.initialize(lambda error, _: self.answers.append(error), 0)

    def read(self, error: Errors, start: int = 0, *batches: StateBatch) -> None:
        assert isinstance(self.persister, SlowPersister)
        self.persister.reads.pop(0)(ReadStateResult(0, error, "", 7, start, batches), 0)


# --------------------------------------------------------------------------- maybeInitialize


@pytest.mark.parametrize(
    ("persister", "client"),
    [
        ("NOT_COORDINATOR", "COORDINATOR_NOT_AVAILABLE"),
        ("COORDINATOR_NOT_AVAILABLE", "COORDINATOR_NOT_AVAILABLE"),
        ("COORDINATOR_LOAD_IN_PROGRESS", "COORDINATOR_NOT_AVAILABLE"),
        ("GROUP_ID_NOT_FOUND", "GROUP_ID_NOT_FOUND"),
        ("UNKNOWN_TOPIC_OR_PARTITION", "UNKNOWN_TOPIC_OR_PARTITION"),
        ("FENCED_LEADER_EPOCH", "NOT_LEADER_OR_FOLLOWER"),
        ("FENCED_STATE_EPOCH", "NOT_LEADER_OR_FOLLOWER"),
        ("INVALID_REQUEST", "UNKNOWN_SERVER_ERROR"),
    ],
)
def test_an_error_of_the_persister_is_told_as_fetch_persister_error_says(
    persister: str, client: str
) -> None:
    """Of a read, after which the share partition has failed, and of a write."""
    starting = Starting()
    starting.initialize()
    starting.read(Errors[persister])
    starting.initialize()  # initializedOrThrowException: IllegalStateException
    assert starting.answers == [Errors[client], Errors.UNKNOWN_SERVER_ERROR]
    assert starting.share.state is SharePartitionState.FAILED
    shares = Shares()
    shares.fetch("a", 100, 10, 1)
    shares.acknowledge_range("a", 0, 3, ACCEPT)
    shares.persister.answer(Errors[persister], 0)
    assert shares.answers[-1] is Errors[client]


def test_a_share_partition_is_initialized_once() -> None:
    starting = Starting()
    starting.initialize()
    starting.initialize()
    assert starting.answers == [Errors.LEADER_NOT_AVAILABLE]
    starting.read(NONE)
    starting.initialize()
    assert starting.answers[1:] == [NONE, NONE]
    starting.share.fence()
    starting.initialize()
    assert starting.answers[3:] == [Errors.LEADER_NOT_AVAILABLE]


def test_a_share_partition_that_is_fenced_while_it_reads_stays_fenced() -> None:
    starting = Starting()
    starting.initialize()
    starting.share.fence()
    starting.read(NONE)
    assert starting.answers == [Errors.LEADER_NOT_AVAILABLE]
    assert starting.share.state is SharePartitionState.FENCED


def test_a_persisted_batch_below_the_start_offset_fails_the_share_partition() -> None:
    starting = Starting()
    starting.initialize()
    starting.read(NONE, 5, StateBatch(4, 9, 2, 1))
    assert starting.answers == [Errors.UNKNOWN_SERVER_ERROR]
    assert starting.share.state is SharePartitionState.FAILED


@pytest.mark.parametrize(
    ("reset", "error", "start"), [(12, NONE, 12), (Errors.OFFSET_NOT_AVAILABLE,) * 2 + (0,)]
)
def test_without_a_persisted_start_it_begins_where_the_group_says(
    reset: int | Errors, error: Errors, start: int
) -> None:
    starting = Starting(reset)
    starting.initialize()
    starting.read(NONE, -1)
    assert (starting.answers, starting.share.cache.start_offset) == ([error], start)


# ------------------------------------------------------------------------ acknowledge, acquire


def _acknowledged(shares: Shares, member: str, *batches: AcknowledgementBatch) -> list[Errors]:
    """Return the answers: none, if the acknowledgement waits for the persister."""
    before = len(shares.answers)
    shares.share.acknowledge(member, batches, lambda e, _: shares.answers.append(e), shares.now)
    return shares.answers[before:]


def _batch(first: int, last: int, *types: int) -> AcknowledgementBatch:
    return AcknowledgementBatch(first, last, types or (ACCEPT,))


def _fetched(size: int = 1) -> Shares:
    """A share partition whose records 0 to 8 a member holds, in batches of 4, 2 and 3."""
    shares = Shares()
    shares.fetch("a", 100, size, 3)
    return shares


@pytest.mark.parametrize(
    ("member", "batch", "error"),
    [
        ("a", _batch(0, 3, 9), "INVALID_REQUEST"),  # fetchRecordState
        ("a", _batch(9, 9), "INVALID_REQUEST"),  # the first offset is past acquired records
        ("a", _batch(4, 9), "INVALID_REQUEST"),  # the last offset is
        ("b", _batch(0, 3), "INVALID_RECORD_STATE"),  # validateAcknowledgementBatchMemberId
        ("b", _batch(1, 1), "INVALID_RECORD_STATE"),
    ],
)
def test_what_a_member_does_not_hold_it_cannot_acknowledge(
    member: str, batch: AcknowledgementBatch, error: str
) -> None:
    shares = _fetched()
    assert _acknowledged(shares, member, batch) == [Errors[error]]
    shares.the_states_agree()


def test_an_offset_of_another_member_or_none_refuses_the_batch() -> None:
    shares = _fetched()
    shares.acknowledge_range("a", 1, 2, RELEASE)
    shares.persister_answers(ok=True)
    assert _acknowledged(shares, "a", _batch(0, 3)) == [Errors.INVALID_RECORD_STATE]
    shares.fetch("b", 1, 10, 1)
    assert _acknowledged(shares, "a", _batch(0, 3)) == [Errors.INVALID_RECORD_STATE]
    shares.the_states_agree()  # the first offset, which the member held, is rolled back


def test_a_refused_batch_takes_back_those_before_it() -> None:
    shares = _fetched()
    refused = _acknowledged(shares, "a", _batch(0, 3), _batch(4, 5, 7), _batch(6, 8))
    assert refused == [Errors.INVALID_REQUEST]
    shares.the_states_agree()
    assert shares.persister.waiting == []


def test_a_batch_that_is_not_in_the_cache_cannot_be_acknowledged() -> None:
    shares = Shares()
    assert _acknowledged(shares, "a", _batch(0, 3)) == [Errors.INVALID_RECORD_STATE]


def test_offsets_below_the_start_offset_are_done() -> None:
    """A batch below is skipped; of one across, and of a cached batch across, the rest counts."""
    shares = _fetched(10)
    shares.acknowledge_range("a", 0, 1, ACCEPT)
    shares.persister_answers(ok=True)
    assert shares.share.cache.start_offset == 2
    assert _acknowledged(shares, "a", _batch(0, 1)) == [NONE]
    assert _acknowledged(shares, "a", _batch(0, 8)) == []
    shares.persister.answer(NONE, 0)
    assert (shares.answers[-1], shares.share.cache.start_offset) == (NONE, 9)


def test_a_request_across_the_start_offset_finds_the_batches_behind_it() -> None:
    """fetchSubMapForAcknowledgementBatch: the first of its offsets was done and forgotten."""
    shares = _fetched()
    shares.acknowledge_range("a", 0, 3, ACCEPT)
    shares.persister_answers(ok=True)
    assert shares.share.cache.floor(0) is None
    assert _acknowledged(shares, "a", _batch(0, 5)) == []
    shares.persister.answer(NONE, 0)
    assert (shares.answers[-1], shares.share.cache.start_offset) == (NONE, 6)


def test_records_below_the_log_start_are_skipped_batch_by_batch() -> None:
    shares = _fetched()
    shares.forget_batches(1)
    assert _acknowledged(shares, "a", _batch(0, 5, REJECT)) == []
    shares.persister.answer(NONE, 0)
    assert shares.answers[-1] is NONE
    assert [state.state.name for _, _, state in shares.share.cache.first.states()] == ["ACQUIRED"]


def test_an_available_batch_cannot_be_acknowledged_in_part() -> None:
    """In transition it has no member any more; an acknowledged one neither."""
    shares = _fetched()
    shares.acknowledge_range("a", 4, 5, RELEASE)
    for batch in (_batch(4, 4), _batch(4, 5), _batch(3, 5)):
        assert _acknowledged(shares, "a", batch) == [Errors.INVALID_RECORD_STATE]
    assert _acknowledged(shares, "", _batch(4, 4)) == [Errors.INVALID_RECORD_STATE]
    assert _acknowledged(shares, "", _batch(4, 5)) == [Errors.INVALID_RECORD_STATE]
    shares.the_states_agree()


def test_nothing_is_acquired_of_nothing_and_of_a_fenced_share_partition() -> None:
    shares = Shares()
    record = Record(None, 1, 10, 0)
    read = FetchPartitionResponse(TP, NONE, 0, 0, 0, (assigned(batch_of((record,)), 0, 0),))
    empty = FetchPartitionResponse(TP, NONE, 0, 0, 0, ())
    assert shares.share.acquire("a", 10, 10, 0, empty, 0) == []
    assert shares.share.acquire("a", 10, 0, 0, read, 0) == []
    assert shares.share.can_acquire()
    shares.share.fence()
    assert shares.share.acquire("a", 10, 10, 0, read, 0) == []
