"""Markers until each is answered, timeouts, expiry, and failovers in every state.

Cites TransactionMarkerChannelManagerTest, TransactionMarkerRequestCompletionHandlerTest,
TransactionStateManagerTest.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.facts import MarkerSkipped, TransactionsLoaded
from kafkasim.model.messages import ListTransactionsRequest, WriteTxnMarkersResponse
from kafkasim.model.transaction.markers.completion_handler import NEEDS_NO_MARKER, RETRIABLE
from kafkasim.model.transaction.records import TransactionLogKey
from kafkasim.model.transaction.rules import REFUSED_FOR_GOOD, TransactionRules
from tests.model.transaction_harness import ID, LOG, TP0, TP1, Bench

NONE = Errors.NONE
NOT_COORDINATOR, LOADING = Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS
EXPIRY = {
    "transactional_id_expiration_ms": 600_000,
    "transaction_remove_expired_transaction_cleanup_interval_ms": 60_000,
}


@pytest.fixture
def bench() -> Bench:
    """A coordinator with an open transaction of two partitions, led by two brokers."""
    bench = Bench().elect()
    bench.init()
    bench.add(1000, 0, TP0, TP1)
    return bench


def addresses(bench: Bench) -> list[str]:
    return [address for address, _, _ in bench.sent]


# ------------------------------------------------------------------------------------ markers


def test_markers_of_several_transactions_to_a_broker_share_a_request(bench: Bench) -> None:
    bench.init(transactional_id="refunds")
    bench.add(1001, 0, TP0, transactional_id="refunds")
    sender, bench.coordinator.markers.sender = bench.coordinator.markers.sender, _Asleep()
    bench.end(1000, 0, True)
    bench.end(1001, 0, False, "refunds")
    bench.coordinator.markers.sender = sender
    bench.awake = True
    bench.settle()
    told = [[marker.producer_id for marker in request.markers] for _, request, _ in bench.sent]
    assert told == [[1000, 1001], [1000]]
    bench.answer_all()
    assert bench.states()[-2:] == [("CompleteAbort", "markers"), ("CompleteCommit", "markers")]


@pytest.mark.parametrize("error", RETRIABLE)
def test_a_marker_is_sent_again_to_the_leader_of_that_time(bench: Bench, error: Errors) -> None:
    bench.end(1000, 0, True)
    bench.leaders[TP0] = "broker-3"
    bench.answer(error)
    assert addresses(bench) == ["broker-2", "broker-3"]
    bench.answer_all()
    assert bench.state() == ("CompleteCommit", 1000, 1)


def test_a_lost_connection_is_no_answer(bench: Bench) -> None:
    bench.end(1000, 0, True)
    _, _, done = bench.sent.pop(0)
    done(Failed("reset"), bench.now)
    bench.settle()
    assert addresses(bench) == ["broker-2", "broker-1"]


@pytest.mark.parametrize("error", NEEDS_NO_MARKER)
def test_a_partition_without_the_producers_data_is_done(bench: Bench, error: Errors) -> None:
    bench.end(1000, 0, True)
    bench.answer(error)
    bench.answer()
    assert bench.state() == ("CompleteCommit", 1000, 1)


@pytest.mark.parametrize("error", REFUSED_FOR_GOOD)
def test_a_marker_that_is_refused_for_good_leaves_the_transaction_decided(
    bench: Bench, error: Errors
) -> None:
    """B54 begins so."""
    bench.end(1000, 0, True)
    bench.answer(error)
    bench.answer()
    assert bench.sent == []
    assert bench.state() == ("PrepareCommit", 1000, 1)
    assert bench.init() == (Errors.CONCURRENT_TRANSACTIONS, -1, -1)


def test_an_error_that_no_one_expects_halts_the_broker(bench: Bench) -> None:
    bench.end(1000, 0, True)
    bench.answer(Errors.UNKNOWN_SERVER_ERROR)
    assert bench.exits == ["UNKNOWN_SERVER_ERROR for a marker of payments in orders-0"]


@pytest.mark.parametrize("resigns", [False, True])
def test_a_completion_waits_while_its_partition_takes_another_leader_epoch(
    bench: Bench, resigns: bool
) -> None:
    """A leader that leads on loads nothing, so that no load would send the markers again."""
    bench.end(1000, 0, True)
    waiting: list[Any] = []
    bench.log.changing_role = waiting
    bench.answer_all()
    assert bench.state() == ("PrepareCommit", 1000, 1)
    bench.log.changing_role = None
    if resigns:
        bench.resign(2)
    for action in waiting:
        action(bench.now)
    bench.settle()
    told = [("PrepareCommit", "end")] if resigns else [("CompleteCommit", "markers")]
    assert bench.states()[-1:] == told


def test_a_deleted_partition_needs_no_marker(bench: Bench) -> None:
    del bench.leaders[TP0]
    bench.end(1000, 0, True)
    assert addresses(bench) == ["broker-2"]
    del bench.leaders[TP1]
    bench.answer(Errors.UNKNOWN_TOPIC_OR_PARTITION)
    assert bench.state() == ("CompleteCommit", 1000, 1)
    skipped = [MarkerSkipped(ID, tp.topic, tp.partition, 1000, 1, 1) for tp in (TP0, TP1)]
    assert [fact for fact in bench.facts if isinstance(fact, MarkerSkipped)] == skipped


def test_a_partition_without_a_leader_waits_until_the_thread_wakes(bench: Bench) -> None:
    bench.leaders[TP0] = ""
    bench.end(1000, 0, True)
    assert addresses(bench) == ["broker-2"]
    bench.answer()
    bench.leaders[TP0] = "broker-3"
    bench.wait(1)
    assert addresses(bench) == ["broker-3"]


def test_a_completion_that_cannot_be_appended_is_tried_again(bench: Bench) -> None:
    bench.end(1000, 0, True)
    bench.answer()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.answer()
    assert bench.state() == ("PrepareCommit", 1000, 1)
    bench.awake = True
    bench.settle()
    assert bench.state() == ("PrepareCommit", 1000, 1)
    bench.log.error = NONE
    bench.wait(30)
    assert bench.state() == ("CompleteCommit", 1000, 1)


def test_a_second_completion_is_the_last_word_about_the_next_transaction() -> None:
    """B51, KAFKA-10080: two threads find that no marker is missing, and one of them sleeps."""

    class TwoThreads(TransactionRules):
        def second_completion_us(self) -> int:
            return 300_000

    def logged(rules: TransactionRules) -> tuple[str, ...]:
        bench = Bench(0, rules).elect()
        bench.init()
        bench.add(1000, 0, TP0)
        bench.end(1000, 0, True)
        bench.answer_all()
        bench.add(1000, 0, TP1)
        bench.wait(1)
        assert bench.state() == ("Ongoing", 1000, 0)
        return tuple([str(record.value.transaction_status) for record in _records(bench)][-2:])

    assert logged(TransactionRules()) == ("CompleteCommit", "Ongoing")
    assert logged(TwoThreads()) == ("Ongoing", "CompleteCommit")


# ----------------------------------------------------------------------------------- failovers


def test_nobody_is_served_before_and_after_a_tenure(bench: Bench) -> None:
    bench.resign(2)
    assert bench.init() == (NOT_COORDINATOR, -1, -1)
    assert bench.add(1000, 0) is NOT_COORDINATOR
    assert bench.end(1000, 0, True) == (NOT_COORDINATOR, -1, -1)
    assert bench.verify(1000, 0) == [NOT_COORDINATOR]
    bench.coordinator.on_elected(0, 3, bench.now)
    describe = bench.coordinator.queries.describe
    assert describe(ID).error is LOADING
    assert bench.coordinator.queries.list(ListTransactionsRequest(), 0).error is LOADING
    bench.settle()
    assert describe(ID).state == "Ongoing"
    loads = [fact for fact in bench.facts if isinstance(fact, TransactionsLoaded)]
    assert loads == [
        TransactionsLoaded(0, 1, True),
        TransactionsLoaded(0, 2, False),
        TransactionsLoaded(0, 3, True),
    ]


def test_what_waits_for_its_commit_fails_at_the_end_of_the_tenure(bench: Bench) -> None:
    bench.replicates = False
    assert bench.end(1000, 0, True) is None
    late = bench.late
    bench.resign(2)
    assert late == [(NOT_COORDINATOR, -1, -1)]


@pytest.mark.parametrize("committing", [True, False])
def test_a_new_coordinator_sends_the_markers_of_a_decision_again(
    bench: Bench, committing: bool
) -> None:
    bench.end(1000, 0, committing)
    bench.answer()
    lost, bench.sent = bench.sent, []
    bench.resign(2)
    bench.elect(3)
    assert addresses(bench) == ["broker-1", "broker-2"]
    assert [request.markers[0].coordinator_epoch for _, request, _ in bench.sent] == [3, 3]
    _, request, done = lost[0]
    done(_written(request), bench.now)  # the answer to the former coordinator
    bench.settle()
    assert len(bench.metadata.partitions) == 2
    bench.answer_all()
    assert bench.state() == (f"Complete{'Commit' if committing else 'Abort'}", 1000, 1)


@pytest.mark.parametrize(
    ("reach", "state"),
    [
        (lambda _: None, ("Ongoing", 1000, 0)),
        (lambda bench: bench.end(1000, 0, True), ("PrepareCommit", 1000, 1)),
        (lambda bench: bench.end(1000, 0, False), ("PrepareAbort", 1000, 1)),
        (lambda bench: (bench.end(1000, 0, True), bench.answer_all()), ("CompleteCommit", 1000, 1)),
        (lambda bench: (bench.end(1000, 0, False), bench.answer_all()), ("CompleteAbort", 1000, 1)),
        (
            lambda bench: (bench.end(1000, 0, False), bench.answer_all(), bench.init()),
            ("Empty", 1000, 2),
        ),
    ],
)
def test_every_state_survives_a_failover(bench: Bench, reach: Any, state: Any) -> None:
    reach(bench)
    partitions, timeout = bench.metadata.partitions, bench.metadata.current.txn_timeout_ms
    twin = Bench(log=bench.log).elect(2)
    assert twin.state() == state
    assert (twin.metadata.partitions, twin.metadata.current.txn_timeout_ms) == (partitions, timeout)


def test_a_failover_forgets_the_last_epoch(bench: Bench) -> None:
    """Only the current epoch is in the log, so a repeated request is fenced after a failover."""
    bench.end(1000, 0, True)
    bench.answer_all()
    bench.init((1000, 1))
    twin = Bench(log=bench.log).elect(2)
    assert twin.init((1000, 1)) == (Errors.PRODUCER_FENCED, -1, -1)


def test_an_election_under_a_higher_epoch_loads_again(bench: Bench) -> None:
    bench.end(1000, 0, True)
    bench.sent = []
    bench.elect(4)
    assert addresses(bench) == ["broker-1", "broker-2"]


def test_an_older_election_changes_nothing(bench: Bench) -> None:
    before = bench.metadata
    bench.elect(1)
    bench.resign(0)
    assert bench.metadata is before


# -------------------------------------------------------------------------- timeouts and expiry


@pytest.mark.parametrize(("version", "epoch"), [(0, 1), (2, 2)])
def test_a_transaction_that_times_out_is_aborted_and_its_producer_fenced(
    version: int, epoch: int
) -> None:
    bench = Bench(version).elect()
    bench.init()
    bench.add(1000, 0)
    bench.wait(60)
    assert bench.state() == ("Ongoing", 1000, 0)
    bench.wait(10)
    assert bench.state() == ("PrepareAbort", 1000, epoch)
    assert bench.states()[-1] == ("PrepareAbort", "timeout")
    bench.answer()
    assert bench.add(1000, 0) is Errors.PRODUCER_FENCED


def test_without_a_fence_a_slow_producer_goes_on_in_the_next_transaction() -> None:
    """B48, KAFKA-6119."""

    class NoFence(TransactionRules):
        def timeout_fences_producer(self) -> bool:
            return False

    bench = Bench(0, NoFence()).elect()
    bench.init()
    bench.add(1000, 0, TP0)
    bench.wait(70)
    bench.answer()
    assert bench.add(1000, 0, TP1) is NONE
    assert bench.end(1000, 0, True) == (NONE, -1, -1)


def test_an_id_expires_after_a_time_of_rest() -> None:
    bench = Bench(**EXPIRY).elect()
    bench.init()
    bench.init(transactional_id="refunds")
    bench.add(1001, 0, transactional_id="refunds")
    bench.end(1001, 0, True, "refunds")  # no answer: decided for ever
    bench.wait(599)
    assert bench.coordinator.queries.describe(ID).error is NONE
    bench.wait(1)
    assert bench.coordinator.queries.describe(ID).error is Errors.TRANSACTIONAL_ID_NOT_FOUND
    assert bench.coordinator.queries.describe("refunds").state == "PrepareCommit"
    tombstones = [record.key for record in _records(bench) if record.value is None]
    assert tombstones == [TransactionLogKey(ID)]
    assert Bench(log=bench.log).elect(2).add(1000, 0) is Errors.INVALID_PRODUCER_ID_MAPPING


def test_an_id_whose_tombstone_fails_stays() -> None:
    bench = Bench(**EXPIRY).elect()
    bench.init()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    bench.wait(660)
    assert bench.metadata.pending is None
    bench.log.error = NONE
    bench.wait(60)
    assert bench.coordinator.queries.describe(ID).error is Errors.TRANSACTIONAL_ID_NOT_FOUND


def test_tombstones_of_many_ids_are_in_several_batches() -> None:
    """A batch has message.max.bytes (removeExpiredTransactionalIds), not Kafka's first buffer."""
    bench = Bench(**EXPIRY, message_max_bytes=20_000).elect()
    for number in range(400):
        bench.init(transactional_id=f"{'x' * 90}-{number}")
    before = len(bench.log.batches[LOG])
    bench.wait(600)
    batches = bench.log.batches[LOG][before:]
    assert [len(batch.records) for batch in batches] == [186, 185, 29]
    assert [19_890 < batch.size <= 20_000 for batch in batches] == [True, True, False]
    assert bench.coordinator.owned.by_partition[0].transactions == {}


# ------------------------------------------------------------------------------------- queries


def test_a_transaction_is_described(bench: Bench) -> None:
    found = bench.coordinator.queries.describe(ID)
    assert (found.state, found.producer_id, found.partitions) == ("Ongoing", 1000, (TP0, TP1))
    assert bench.coordinator.queries.describe("").error is Errors.INVALID_REQUEST


def test_transactions_are_listed_by_state_producer_and_age(bench: Bench) -> None:
    bench.init(transactional_id="refunds")
    bench.wait(5)

    def listed(**filters: Any) -> list[str]:
        answer = bench.coordinator.queries.list(ListTransactionsRequest(**filters), bench.now)
        return [each[0] for each in answer.transactions]

    assert listed() == [ID, "refunds"]
    assert listed(state_filters=("Ongoing",)) == [ID]
    assert listed(producer_id_filters=(1001,)) == ["refunds"]
    assert listed(state_filters=("Ongoing",), duration_filter_ms=4999) == [ID]
    assert listed(state_filters=("Ongoing",), duration_filter_ms=5000) == []
    unknown = ListTransactionsRequest(("Sleeping",))
    assert bench.coordinator.queries.list(unknown, 0).unknown_state_filters == ("Sleeping",)


class _Asleep:
    def wakeup(self) -> None:
        """Sleep on."""

    def wakeup_by(self, deadline: int) -> None:
        """Sleep on."""


def _written(request: Any) -> Any:
    results = [
        (marker.producer_id, tuple([(tp, NONE) for tp in marker.partitions]))
        for marker in request.markers
    ]
    return WriteTxnMarkersResponse(tuple(results))


def _records(bench: Bench) -> list[Any]:
    return [record for batch in bench.log.batches[LOG] for record in batch.records]
