"""SharePartitionManager and DelayedShareFetch by themselves, with each of their errors (KIP-932).

Sources: SharePartitionManager.processShareFetch, acknowledge and fencedSharePartitionHandler,
ShareFetchUtils.processFetchResponse of Kafka 4.1.0.
"""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartitionResponse
from kafkasim.model.messages.share import (
    ACCEPT,
    AcknowledgementBatch,
    AcquiredRecords,
    ReadStateResult,
    ShareFetchRequest,
    SharePartitionRequest,
    SharePartitionResponse,
    StateBatch,
)
from kafkasim.model.records import Record, TopicPartition, assigned, batch_of
from kafkasim.model.replication.share.manager import SharePartitionManager
from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.model.timers import Timers
from tests.stateful.test_share_partition_stateful import FakePersister

NONE = Errors.NONE
TP, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
KEY, OTHER_KEY = ("T", TP), ("T", OTHER)
MISSING = Errors.UNKNOWN_TOPIC_OR_PARTITION
RECORDS = (assigned(batch_of((Record(None, 1, 10, 0),) * 4), 0, 0),)
DONE = (AcknowledgementBatch(0, 3, (ACCEPT,)),)


class Settings:
    most_deliveries = 5
    most_in_flight = 100
    max_sessions = 10
    reset = "latest"

    def lock_duration_ms(self, _group: str) -> int:
        return 1000

    def group(self, _group: str) -> Any:
        return SimpleNamespace(
            share_auto_offset_reset=self.reset, share_isolation_level="read_uncommitted"
        )


class SlowPersister(FakePersister):
    """Answers a read when it is told to, if ``slow``."""

    slow = False
    start = 0
    states: tuple[StateBatch, ...] = ()

    def __init__(self) -> None:
        super().__init__()
        self.reads: list[Any] = []

    def read_state(self, *args: Any) -> None:
        self.reads.append(args[-1])
        if not self.slow:
            self.read(NONE)

    def read(self, error: Errors) -> None:
        self.reads.pop(0)(ReadStateResult(0, error, "", 0, self.start, self.states), 0)


class Broker:
    """What a manager needs of its broker; one partition of two is here."""

    def __init__(self) -> None:
        self.out: list[Any] = []
        self.timers = Timers()
        self.persister = SlowPersister()
        self.settings = Settings()
        self.leads = NONE
        self.read_error = NONE
        self.available = 1
        self.batches = RECORDS
        self.log_start: tuple[Errors, int] = (NONE, 9)
        self.asked: list[int] = []  # the timestamps of ListOffsets
        delayed = SimpleNamespace(listeners={}, consumer_fetches={})
        self.partition = SimpleNamespace(
            check_leader=lambda _epoch: self.leads, leader_epoch=3, delayed=delayed
        )
        self.online = {TP: self.partition}
        waits: Any = SimpleNamespace(add=lambda *_: None)
        here: Any = self
        self.manager = SharePartitionManager(
            here, self.settings, ShareRules(), self.persister, here, here, here, waits
        )
        self.answers: list[list[SharePartitionResponse]] = []
        self.results: list[dict[Any, Errors]] = []

    def error_of_missing(self, _tp: TopicPartition) -> Errors:
        return MISSING

    def current_leader(self, _tp: TopicPartition) -> tuple[int, int]:
        return 2, 4

    def available_bytes(self, *_: Any) -> int:
        return self.available

    def read(self, _fetch: Any, wanted: Any, _now: int, first: bool) -> Any:
        error = self.read_error
        batches = () if error is not NONE else self.batches
        reads = [
            (asked, None, None, FetchPartitionResponse(asked.tp, error, 4, 4, 0, batches))
            for asked, _ in wanted
        ]
        return SimpleNamespace(reads=reads)

    def list_offset(self, _request: Any, asked: Any) -> Any:
        self.asked.append(asked.timestamp)
        error, offset = self.log_start
        return SimpleNamespace(error=error, offset=offset)

    # What members do.

    def fetch(self, *keys: Any, epoch: int = 0, member: str = "m", max_bytes: int = 1000) -> None:
        asked = tuple([SharePartitionRequest(tp, topic_id) for topic_id, tp in keys])
        request = ShareFetchRequest("g", member, epoch, 500, 1, max_bytes, 10, 10, asked)
        self.manager.fetch(request, list(keys), lambda found, _: self.answers.append(found), 0)

    def fetched(self, *keys: Any, **how: Any) -> list[Any]:
        """Return what a fetch that is answered at once says: partition, error, acquired ranges."""
        self.fetch(*keys, **how)
        return [(each.tp, each.error, len(each.acquired)) for each in self.answers.pop()]

    def acknowledge(self, *keys: Any) -> None:
        batches = dict.fromkeys(keys, DONE)
        self.manager.acknowledge("g", "m", batches, lambda found, _: self.results.append(found), 0)

    def open_session(self, member: str, connection: int, *keys: Any) -> None:
        asked = tuple([SharePartitionRequest(tp, topic_id) for topic_id, tp in keys])
        request = ShareFetchRequest("g", member, 0, 500, 1, 1000, 10, 10, asked)
        self.manager.sessions.open(request, connection)

    @property
    def closed(self) -> list[str]:
        """Why share partitions were forgotten."""
        return [each.reason for each in self.out if isinstance(each, facts.SharePartitionClosed)]


# ------------------------------------------------------------------------------------ ShareFetch


def test_a_fetch_of_nothing_is_answered_with_nothing() -> None:
    assert Broker().fetched() == []


@pytest.mark.parametrize("error", [Errors.NOT_LEADER_OR_FOLLOWER, Errors.KAFKA_STORAGE_ERROR])
def test_a_partition_that_is_not_led_here_has_its_error(error: Errors) -> None:
    broker = Broker()
    broker.leads = error
    assert broker.fetched(KEY, OTHER_KEY) == [(TP, error, 0), (OTHER, MISSING, 0)]
    assert (broker.manager.shares, broker.closed) == ({}, [])


def test_an_answer_names_the_leader_if_it_is_another_one() -> None:
    broker = Broker()
    broker.leads = Errors.NOT_LEADER_OR_FOLLOWER
    broker.fetch(KEY, OTHER_KEY)
    assert [each.current_leader for each in broker.answers.pop()] == [(2, 4), None]


def test_one_partition_of_two_that_fails_takes_nothing_from_the_other() -> None:
    assert Broker().fetched(KEY, OTHER_KEY) == [(TP, NONE, 1), (OTHER, MISSING, 0)]


@pytest.mark.parametrize(
    ("persister", "error"),
    [
        (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.COORDINATOR_NOT_AVAILABLE),
        (Errors.FENCED_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER),
        (Errors.INVALID_REQUEST, Errors.UNKNOWN_SERVER_ERROR),
    ],
)
def test_a_share_partition_that_cannot_begin_is_forgotten(persister: Errors, error: Errors) -> None:
    """handleInitializationException; the fetch that waits is answered when its time is over."""
    broker = Broker()
    broker.persister.slow = True
    broker.fetch(KEY)
    (waiting,) = broker.partition.delayed.consumer_fetches
    broker.persister.read(persister)
    assert broker.answers == []
    waiting.expire(0)
    assert [(each.tp, each.error) for each in broker.answers.pop()] == [(TP, error)]
    assert (broker.manager.shares, broker.closed) == ({}, [error.name])
    assert broker.partition.delayed.listeners == {}


def test_a_fetch_waits_for_a_share_partition_that_begins() -> None:
    broker = Broker()
    broker.persister.slow = True
    broker.fetch(KEY)
    broker.fetch(KEY, member="n")  # LEADER_NOT_AVAILABLE: it waits, too
    broker.persister.read(NONE)
    told = [[(each.error, len(each.acquired)) for each in found] for found in broker.answers]
    assert told == [[(NONE, 1)], [(NONE, 0)]]


def test_a_fetch_whose_time_is_over_is_answered_with_what_there_is() -> None:
    broker = Broker()
    broker.available = 0
    broker.fetch(KEY)
    (waiting,) = broker.partition.delayed.consumer_fetches
    waiting.expire(0)
    assert [(each.error, len(each.acquired)) for each in broker.answers.pop()] == [(NONE, 1)]
    assert broker.partition.delayed.consumer_fetches == {}


@pytest.mark.parametrize(
    ("found", "error"),
    [
        ((NONE, -1), Errors.OFFSET_NOT_AVAILABLE),
        ((Errors.FENCED_LEADER_EPOCH, -1), Errors.FENCED_LEADER_EPOCH),
    ],
)
@pytest.mark.parametrize(("reset", "timestamp"), [("latest", -1), ("earliest", -2)])
def test_a_group_cannot_begin_where_the_leader_does_not_know(
    reset: str, timestamp: int, found: tuple[Errors, int], error: Errors
) -> None:
    broker = Broker()
    broker.persister.start = -1
    broker.settings.reset = reset
    broker.log_start = found
    assert broker.fetched(KEY) == [(TP, error, 0)]
    assert (broker.asked, broker.closed) == ([timestamp], [error.name])


def test_gaps_of_which_the_log_has_nothing_are_given_with_the_batch_before_them() -> None:
    """ShareFetchUtils.maybeSliceFetchRecords: an answer without records tells of no gap."""
    broker = Broker()
    broker.persister.states = (StateBatch(1, 3, 2, 1), StateBatch(6, 9, 2, 1))
    (written,) = RECORDS
    broker.batches = (
        replace(written, base_offset=1, last_offset=3),
        replace(written, base_offset=6, last_offset=9),
    )
    broker.fetch(KEY)
    ((answer,),) = broker.answers
    assert (answer.acquired, answer.batches) == ((AcquiredRecords(4, 5, 1),), broker.batches[:1])


def test_a_fetch_without_room_for_a_byte_is_the_servers_error() -> None:
    """PartitionMaxBytesStrategy.checkValidArguments throws IllegalArgumentException."""
    assert Broker().fetched(KEY, max_bytes=0) == [(TP, Errors.UNKNOWN_SERVER_ERROR, 0)]


@pytest.mark.parametrize("error", [Errors.NOT_LEADER_OR_FOLLOWER, Errors.KAFKA_STORAGE_ERROR])
def test_the_error_of_a_read_is_told_and_forgets_nothing(error: Errors) -> None:
    broker = Broker()
    broker.read_error = error
    assert broker.fetched(KEY) == [(TP, error, 0)]
    assert list(broker.manager.shares) == [("g", *KEY)]


def test_a_read_out_of_range_moves_the_start_and_is_no_error() -> None:
    broker = Broker()
    broker.read_error = Errors.OFFSET_OUT_OF_RANGE
    assert broker.fetched(KEY) == [(TP, NONE, 0)]
    assert broker.manager.shares["g", *KEY].cache.start_offset == 9


@pytest.mark.parametrize(
    ("found", "error", "closed"),
    [
        ((NONE, -1), Errors.OFFSET_NOT_AVAILABLE, []),
        ((Errors.KAFKA_STORAGE_ERROR, -1), Errors.KAFKA_STORAGE_ERROR, []),
        ((MISSING, -1), MISSING, ["UNKNOWN_TOPIC_OR_PARTITION"]),
    ],
)
def test_a_log_start_that_is_not_known_is_an_error_and_fences_if_it_is_one_that_does(
    found: tuple[Errors, int], error: Errors, closed: list[str]
) -> None:
    broker = Broker()
    broker.read_error = Errors.OFFSET_OUT_OF_RANGE
    broker.log_start = found
    assert broker.fetched(KEY) == [(TP, error, 0)]
    assert broker.closed == closed


# ----------------------------------------------------------------------------- ShareAcknowledge


def test_nobody_can_acknowledge_what_nobody_has_fetched_here() -> None:
    broker = Broker()
    broker.acknowledge(KEY)
    assert broker.results == [{KEY: MISSING}]
    broker.acknowledge()
    assert broker.results[1:] == [{}]


@pytest.mark.parametrize(
    ("persister", "error", "closed"),
    [
        (NONE, NONE, []),
        (Errors.COORDINATOR_NOT_AVAILABLE, Errors.COORDINATOR_NOT_AVAILABLE, []),
        (Errors.INVALID_REQUEST, Errors.UNKNOWN_SERVER_ERROR, []),
        (Errors.FENCED_LEADER_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER, ["NOT_LEADER_OR_FOLLOWER"]),
        (Errors.FENCED_STATE_EPOCH, Errors.NOT_LEADER_OR_FOLLOWER, ["NOT_LEADER_OR_FOLLOWER"]),
        (Errors.GROUP_ID_NOT_FOUND, Errors.GROUP_ID_NOT_FOUND, ["GROUP_ID_NOT_FOUND"]),
        (MISSING, MISSING, ["UNKNOWN_TOPIC_OR_PARTITION"]),
    ],
)
def test_some_errors_of_a_write_fence_the_share_partition(
    persister: Errors, error: Errors, closed: list[str]
) -> None:
    broker = Broker()
    broker.fetch(KEY)
    broker.acknowledge(KEY, OTHER_KEY)
    assert broker.results == []  # until all partitions have answered
    broker.persister.answer(persister, 0)
    assert broker.results == [{KEY: error, OTHER_KEY: MISSING}]
    assert broker.closed == closed


# --------------------------------------------------------------------------- the end of sessions


def test_the_last_session_of_a_group_ends_its_share_partitions() -> None:
    broker = Broker()
    broker.fetch(KEY)
    broker.open_session("m", 7, KEY)
    broker.open_session("n", 8, KEY)
    share = broker.manager.shares["g", *KEY]
    broker.manager.disconnected(7, 0)
    assert [state.state.name for _, _, state in share.cache.first.states()] == ["AVAILABLE"]
    assert broker.closed == []
    broker.manager.disconnected(7, 0)  # it has no session any more
    broker.manager.release_session(("g", "m"), 0)
    broker.manager.disconnected(8, 0)
    assert (broker.manager.shares, broker.closed) == ({}, ["empty"])
    assert not share.active


def test_the_end_of_the_leadership_fences_the_share_partition_once() -> None:
    broker = Broker()
    broker.fetch(KEY)
    (ended,) = broker.partition.delayed.listeners
    broker.online.clear()
    ended.leadership_ended(0)
    ended.leadership_ended(0)
    assert broker.closed == ["leadership"]
    assert broker.manager.ground_truth() == []


def test_a_fetch_looks_at_the_group_and_partition_that_it_waits_for() -> None:
    broker = Broker()
    broker.available = 0
    broker.online[OTHER] = broker.partition
    broker.fetch(KEY)
    broker.fetch(OTHER_KEY)
    broker.available = 1
    broker.manager.complete_fetches("another", TP, 0)
    broker.manager.complete_fetches("g", TopicPartition("orders", 2), 0)
    assert broker.answers == []
    one, other = list(broker.partition.delayed.consumer_fetches)
    one.complete(0)
    del broker.online[OTHER]  # it is led no more
    other.try_complete(replace(other.request.partitions[0]), 0)
    assert [[each.tp for each in found] for found in broker.answers] == [[TP], [OTHER]]
    one.check(0)  # it is done
    assert len(broker.answers) == 2
