"""The transaction coordinator: who gets which epoch, and how transactions begin and end.

Cites TransactionCoordinatorTest, KIP-98, KIP-360, KIP-890.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.transaction.rules import TransactionRules
from tests.model.transaction_harness import ID, LOG, TP0, TP1, Bench

NONE = Errors.NONE
FENCED, CONCURRENT = Errors.PRODUCER_FENCED, Errors.CONCURRENT_TRANSACTIONS
NOBODY = (-1, -1)


class Kafka41(TransactionRules):
    def fence_is_in_memory_first(self) -> bool:
        return False


class Kafka39(TransactionRules):
    def pending_is_asked_first(self) -> bool:
        return False


class BeforeKafka9307(TransactionRules):
    def load_replaces_state(self) -> bool:
        return False


@pytest.fixture
def bench() -> Bench:
    return Bench().elect()


@pytest.fixture
def old() -> Bench:
    """A coordinator below transaction.version 2."""
    return Bench(version=0).elect()


# ------------------------------------------------------------------------------ InitProducerId


def test_an_id_gets_a_producer_id_and_then_the_next_epochs(bench: Bench) -> None:
    assert [bench.init() for _ in range(3)] == [(NONE, 1000, 0), (NONE, 1000, 1), (NONE, 1000, 2)]
    assert bench.states() == [("Empty", "init")] * 3


def test_a_producer_without_an_id_gets_epoch_zero_of_a_new_producer_id(bench: Bench) -> None:
    assert [bench.init(transactional_id=None) for _ in range(2)] == [
        (NONE, 1000, 0),
        (NONE, 1001, 0),
    ]


@pytest.mark.parametrize(
    ("transactional_id", "timeout_ms", "error"),
    [
        ("", 60_000, Errors.INVALID_REQUEST),
        (ID, 0, Errors.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_001, Errors.INVALID_TRANSACTION_TIMEOUT),
        (ID, 900_000, NONE),
    ],
)
def test_what_cannot_be_initialized(
    bench: Bench, transactional_id: str, timeout_ms: int, error: Errors
) -> None:
    answer = bench.init(None, transactional_id, timeout_ms)
    assert answer is not None
    assert answer[0] is error


@pytest.mark.parametrize("transactional_id", [None, ID])
def test_no_producer_id_is_left(bench: Bench, transactional_id: str | None) -> None:
    bench.next_producer_id = None
    assert bench.init(None, transactional_id) == (Errors.COORDINATOR_LOAD_IN_PROGRESS, *NOBODY)


def test_a_producer_raises_its_own_epoch_and_may_repeat_that(bench: Bench) -> None:
    """KIP-360: the answer to the first bump was lost, so the second gets the same epoch."""
    bench.init()
    assert [bench.init((1000, 0)) for _ in range(2)] == [(NONE, 1000, 1), (NONE, 1000, 1)]
    bench.init()  # another producer
    assert bench.init((1000, 1)) == (FENCED, *NOBODY)
    assert bench.init((1001, 2)) == (FENCED, *NOBODY)


def test_an_id_that_expired_gets_a_new_producer_id_for_its_old_producer(bench: Bench) -> None:
    assert bench.init((77, 5)) == (NONE, 1000, 0)


def test_exhausted_epochs_get_another_producer_id(bench: Bench) -> None:
    _at_epoch(bench, 32_766)
    assert bench.init() == (NONE, 1001, 0)


def test_a_producer_of_an_exhausted_epoch_may_repeat_its_request(bench: Bench) -> None:
    _at_epoch(bench, 32_766)
    assert [bench.init((1000, 32_766)) for _ in range(2)] == [(NONE, 1001, 0), (NONE, 1001, 0)]


def test_no_other_epoch_of_an_exhausted_producer_id_is_served(bench: Bench) -> None:
    _at_epoch(bench, 32_766)
    assert bench.init((1000, 32_765)) == (Errors.UNKNOWN_SERVER_ERROR, *NOBODY)
    bench.next_producer_id = None
    assert bench.init() == (Errors.COORDINATOR_LOAD_IN_PROGRESS, *NOBODY)


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize(
    ("used", "answers"),
    [
        (1, [(NONE, 1000, 1), (NONE, 1000, 2)]),
        (32_766, [(NONE, 1000, 32_766), (NONE, 1001, 0)]),
        (32_767, [(NONE, 1001, 0), (NONE, 1001, 1)]),
    ],
)
def test_an_id_goes_on_from_the_epochs_that_it_has_used(
    version: int, used: int, answers: list[tuple[Errors, int, int]]
) -> None:
    bench = Bench(version, epochs_used={ID: used}).elect()
    assert [bench.init() for _ in answers] == answers
    loaded = Bench(version, log=bench.log).elect(2)  # it knows nothing of the history
    assert loaded.state() == bench.state()


def test_a_failed_first_initialization_uses_no_epoch() -> None:
    bench = Bench(epochs_used={ID: 5}).elect()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.init() == (Errors.COORDINATOR_NOT_AVAILABLE, *NOBODY)
    bench.log.error = NONE
    assert bench.init() == (NONE, 1000, 5)


def test_a_producer_that_names_its_epoch_for_a_new_id_begins_at_zero() -> None:
    bench = Bench(epochs_used={ID: 5}).elect()
    assert bench.init((77, 5)) == (NONE, 1000, 0)


def test_an_initialization_under_way_blocks_the_next(bench: Bench) -> None:
    bench.replicates = False
    assert bench.init() is None
    late = bench.late
    assert bench.init() == (CONCURRENT, *NOBODY)
    bench.replicates = True
    bench.settle()
    assert late == [(NONE, 1000, 0)]


def test_a_new_producer_aborts_what_the_old_one_had_begun(bench: Bench) -> None:
    bench.init()
    bench.add(1000, 0)
    assert bench.init() == (CONCURRENT, *NOBODY)
    assert bench.state() == ("PrepareAbort", 1000, 2)
    assert bench.add(1000, 0) is CONCURRENT  # the completion is pending
    assert bench.init() == (CONCURRENT, *NOBODY)
    bench.answer()
    assert bench.add(1000, 0) is FENCED
    assert bench.init() == (NONE, 1000, 3)


@pytest.mark.parametrize(
    ("version", "rules", "epochs"),
    [(0, TransactionRules(), (1, 2)), (2, TransactionRules(), (2, 3)), (2, Kafka41(), (1, 2))],
)
def test_how_often_a_fence_raises_the_epoch(
    version: int, rules: TransactionRules, epochs: tuple[int, int]
) -> None:
    """KAFKA-19367: 4.0 raises it twice under transaction.version 2."""
    bench = Bench(version, rules).elect()
    bench.init()
    bench.add(1000, 0)
    bench.init()
    assert bench.state() == ("PrepareAbort", 1000, epochs[0])
    ((_, request, _),) = bench.sent
    assert request.markers[0].producer_epoch == epochs[0]
    bench.answer()
    assert bench.init() == (NONE, 1000, epochs[1])


# --------------------------------------------------------------------------- AddPartitionsToTxn


def test_partitions_join_a_transaction_and_begin_it(bench: Bench) -> None:
    bench.init()
    assert [bench.add(1000, 0, TP0), bench.add(1000, 0, TP1), bench.add(1000, 0, TP0)] == [NONE] * 3
    assert list(bench.metadata.partitions) == [TP0, TP1]
    assert bench.states()[1:] == [("Ongoing", "add")] * 2  # the third needs no record


def test_who_may_not_add_partitions(bench: Bench) -> None:
    assert bench.add(1000, 0) is Errors.INVALID_PRODUCER_ID_MAPPING
    bench.init()
    assert bench.add(1001, 0) is Errors.INVALID_PRODUCER_ID_MAPPING
    assert bench.add(1000, 1) is FENCED
    assert bench.add(1000, 0, transactional_id="") is Errors.INVALID_REQUEST


@pytest.mark.parametrize(
    ("rules", "other_id", "other_epoch"),
    [
        (TransactionRules(), CONCURRENT, CONCURRENT),
        (Kafka39(), Errors.INVALID_PRODUCER_ID_MAPPING, FENCED),
    ],
)
def test_what_is_pending_is_waited_for_before_the_producer_is_looked_at(
    rules: TransactionRules, other_id: Errors, other_epoch: Errors
) -> None:
    """4.0 looks at it first (handleAddPartitionsToTransaction)."""
    bench = Bench(rules=rules).elect()
    bench.init()
    bench.replicates = False
    assert bench.init() is None
    assert bench.add(1001, 0) is other_id
    assert bench.add(1000, 1) is other_epoch
    assert bench.add(1000, 0) is CONCURRENT


def test_partitions_wait_for_the_end_of_the_transaction_before(old: Bench) -> None:
    old.init()
    old.add(1000, 0)
    old.end(1000, 0, True)
    assert old.add(1000, 0) is CONCURRENT
    old.answer()
    assert old.add(1000, 0, TP1) is NONE
    assert list(old.metadata.partitions) == [TP1]


def test_a_leader_verifies_partitions(bench: Bench) -> None:
    assert bench.verify(1000, 0) == [Errors.INVALID_PRODUCER_ID_MAPPING]
    bench.init()
    bench.add(1000, 0, TP0)
    assert bench.verify(1000, 0, TP0, TP1) == [NONE, Errors.TRANSACTION_ABORTABLE]
    assert bench.verify(1000, 1) == [FENCED]
    assert bench.verify(1001, 0) == [Errors.INVALID_PRODUCER_ID_MAPPING]


def test_nothing_is_in_a_transaction_that_is_decided(old: Bench) -> None:
    old.init()
    old.add(1000, 0)
    old.end(1000, 0, False)
    assert old.verify(1000, 0) == [CONCURRENT]


# -------------------------------------------------------------------------------------- EndTxn


@pytest.mark.parametrize("committing", [True, False])
def test_a_transaction_ends_with_a_marker_for_each_leader(bench: Bench, committing: bool) -> None:
    bench.init()
    bench.add(1000, 0, TP0, TP1)
    assert bench.end(1000, 0, committing) == (NONE, 1000, 1)
    markers = [
        (address, marker.producer_epoch, marker.committed, marker.partitions)
        for address, request, _ in bench.sent
        for marker in request.markers
    ]
    assert markers == [("broker-1", 1, committing, (TP0,)), ("broker-2", 1, committing, (TP1,))]
    bench.answer()
    assert list(bench.metadata.partitions) == [TP1]
    bench.answer()
    decided = "Commit" if committing else "Abort"
    assert bench.states()[2:] == [(f"Prepare{decided}", "end"), (f"Complete{decided}", "markers")]
    assert bench.add(1000, 1) is NONE


def test_an_old_client_keeps_its_epoch_and_is_told_none(old: Bench) -> None:
    old.init()
    old.add(1000, 0)
    assert old.end(1000, 0, True) == (NONE, *NOBODY)
    old.answer()
    assert old.state() == ("CompleteCommit", 1000, 0)


EMPTY, ONGOING, PREPARED, COMPLETE = "Empty", "Ongoing", "Prepare", "Complete"
TXN_STATE = Errors.INVALID_TXN_STATE

# (state, that it was a commit, epoch less the current one, commit now) to the answer: the table of
# TransactionCoordinator.endTransaction, and the same for requests before version 5.
NEW_TABLE = {
    (EMPTY, True, -1, False): FENCED,
    (EMPTY, True, 0, False): NONE,
    (EMPTY, True, -1, True): FENCED,
    (EMPTY, True, 0, True): TXN_STATE,
    (ONGOING, True, -1, True): FENCED,
    (ONGOING, True, 0, True): NONE,
    (ONGOING, True, 1, True): FENCED,
    (PREPARED, True, -1, True): CONCURRENT,
    (PREPARED, False, -1, False): CONCURRENT,
    (PREPARED, False, -1, True): CONCURRENT,
    (PREPARED, True, 0, True): CONCURRENT,
    (PREPARED, True, 1, True): CONCURRENT,
    (COMPLETE, False, -1, False): NONE,
    (COMPLETE, False, 0, False): NONE,
    (COMPLETE, False, -1, True): TXN_STATE,
    (COMPLETE, False, 0, True): TXN_STATE,
    (COMPLETE, True, -1, False): TXN_STATE,
    (COMPLETE, True, 0, False): NONE,
    (COMPLETE, True, -1, True): NONE,
    (COMPLETE, True, 0, True): TXN_STATE,
}
OLD_TABLE = {
    (EMPTY, True, 0, False): TXN_STATE,
    (EMPTY, True, 0, True): TXN_STATE,
    (ONGOING, True, -1, True): FENCED,
    (ONGOING, True, 1, True): FENCED,
    (ONGOING, True, 0, True): NONE,
    (PREPARED, True, 0, True): CONCURRENT,
    (PREPARED, False, 0, False): CONCURRENT,
    (PREPARED, True, 0, False): CONCURRENT,
    (PREPARED, False, 0, True): CONCURRENT,
    (COMPLETE, True, 0, True): NONE,
    (COMPLETE, False, 0, False): NONE,
    (COMPLETE, True, 0, False): TXN_STATE,
    (COMPLETE, False, 0, True): TXN_STATE,
}


@pytest.mark.parametrize(
    ("version", "row"),
    [(2, row) for row in NEW_TABLE] + [(0, row) for row in OLD_TABLE],
)
def test_the_table_of_ends(version: int, row: tuple[str, bool, int, bool]) -> None:
    state, was_commit, less, committing = row
    bench = Bench(version).elect()
    bench.init()
    bench.init()  # epoch 1, so that there is an epoch before
    if state is not EMPTY:
        bench.add(1000, 1)
    if state in (PREPARED, COMPLETE):
        bench.end(1000, 1, was_commit)
    if state is COMPLETE:
        bench.answer_all()
    current = bench.metadata.producer_epoch
    answer = bench.end(1000, current + less, committing)
    assert answer is not None
    assert answer[0] is (NEW_TABLE if version else OLD_TABLE)[row]


def test_a_repeated_end_gets_the_epoch_of_the_first_answer(bench: Bench) -> None:
    bench.init()
    bench.add(1000, 0)
    first = bench.end(1000, 0, True)
    bench.answer()
    assert first == bench.end(1000, 0, True) == (NONE, 1000, 1)


def test_an_abort_without_a_partition_needs_no_marker(bench: Bench) -> None:
    """KIP-890: the client cannot know whether its produce request has added one."""
    bench.init()
    assert bench.end(1000, 0, False) == (NONE, 1000, 1)
    assert bench.sent == []
    assert bench.state() == ("CompleteAbort", 1000, 1)


def test_who_may_not_end_a_transaction(bench: Bench) -> None:
    assert bench.end(1000, 0, True) == (Errors.INVALID_PRODUCER_ID_MAPPING, *NOBODY)
    assert bench.end(1000, 0, True, "") == (Errors.INVALID_REQUEST, *NOBODY)
    bench.init()
    bench.add(1000, 0)
    assert bench.end(1001, 0, True) == (Errors.INVALID_PRODUCER_ID_MAPPING, *NOBODY)
    bench.replicates = False
    assert bench.end(1000, 0, True) is None
    assert bench.end(1000, 0, True) == (CONCURRENT, *NOBODY)


def test_who_may_not_end_an_old_transaction(old: Bench) -> None:
    old.init()
    old.add(1000, 0)
    assert old.end(1001, 0, True) == (Errors.INVALID_PRODUCER_ID_MAPPING, *NOBODY)
    old.replicates = False
    assert old.end(1000, 0, True) is None
    assert old.end(1000, 0, True) == (CONCURRENT, *NOBODY)


def test_an_end_that_exhausts_the_epochs_brings_another_producer_id(bench: Bench) -> None:
    _at_epoch(bench, 32_766)
    bench.add(1000, 32_766)
    assert bench.end(1000, 32_766, True) == (NONE, 1001, 0)
    assert bench.state() == ("PrepareCommit", 1000, 32_767)  # no client sees this epoch
    assert bench.add(1001, 0) is CONCURRENT  # it is served once the markers are written
    assert bench.add(999, 0) is CONCURRENT
    assert bench.end(1001, 0, False) == (CONCURRENT, *NOBODY)
    bench.answer()
    assert bench.state() == ("CompleteCommit", 1001, 0)
    assert bench.end(1000, 32_766, True) == (NONE, 1001, 0)  # the client repeats it
    assert bench.end(1000, 32_766, False) == (TXN_STATE, *NOBODY)
    assert bench.add(1001, 0) is NONE


def test_an_end_waits_for_a_producer_id(bench: Bench) -> None:
    _at_epoch(bench, 32_766)
    bench.add(1000, 32_766)
    bench.next_producer_id = None
    assert bench.end(1000, 32_766, True) == (Errors.COORDINATOR_LOAD_IN_PROGRESS, *NOBODY)
    assert bench.state() == ("Ongoing", 1000, 32_766)


# ------------------------------------------------------------------------------ failed appends


def test_a_failed_append_leaves_everything_as_it_was(bench: Bench) -> None:
    bench.init()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.add(1000, 0) is Errors.COORDINATOR_NOT_AVAILABLE
    assert bench.init() == (Errors.COORDINATOR_NOT_AVAILABLE, *NOBODY)
    bench.log.error = NONE
    assert bench.state() == ("Empty", 1000, 0)
    assert bench.add(1000, 0) is NONE


def test_an_append_that_is_not_committed_in_time_fails_though_it_is_in_the_log(
    bench: Bench,
) -> None:
    bench.init(timeout_ms=5000)
    bench.replicates = False
    assert bench.init(timeout_ms=5000) is None
    late = bench.late
    bench.wait(5)
    assert late == [(Errors.COORDINATOR_NOT_AVAILABLE, *NOBODY)]
    assert bench.metadata.pending is None
    assert bench.log.end(LOG) == 2
    bench.replicates = True
    bench.settle()
    assert bench.init() == (NONE, 1000, 1)


@pytest.mark.parametrize("rules", [TransactionRules(), Kafka41()])
def test_a_fence_that_is_not_written_raises_the_epoch_once(rules: TransactionRules) -> None:
    """B52, KAFKA-9666."""
    bench = Bench(2, rules).elect()
    bench.init()
    bench.add(1000, 0)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    for _ in range(5):
        assert bench.init() == (Errors.COORDINATOR_NOT_AVAILABLE, *NOBODY)
    bench.log.error = NONE
    assert bench.init() == (CONCURRENT, *NOBODY)
    assert bench.metadata.producer_epoch == (2 if rules.fence_is_in_memory_first() else 1)


def test_a_variant_raises_it_with_each_attempt() -> None:
    class EachTime(TransactionRules):
        def fencing_epoch(self, epoch: int, has_failed_epoch_fence: bool) -> int:
            return epoch + 1

    bench = Bench(0, EachTime()).elect()
    bench.init()
    bench.add(1000, 0)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    for _ in range(5):
        bench.init()
    assert bench.metadata.producer_epoch == 5


def test_a_fence_that_was_not_written_under_the_last_epoch_is_not_tried_again() -> None:
    """TransactionMetadata.prepareFenceProducerEpoch looks at the epoch first."""
    bench = Bench(0).elect()
    _at_epoch(bench, 32_766)
    bench.add(1000, 32_766)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    assert bench.init() == (Errors.COORDINATOR_NOT_AVAILABLE, *NOBODY)
    bench.log.error = NONE
    assert bench.init() == (Errors.UNKNOWN_SERVER_ERROR, *NOBODY)
    assert bench.state() == ("Ongoing", 1000, 32_767)


def test_an_exhausted_producer_is_known_until_the_next_transaction_is_complete(
    bench: Bench,
) -> None:
    """Adding partitions keeps previousProducerId (TransactionMetadata.completeTransitionTo)."""
    _at_epoch(bench, 32_766)
    assert bench.init((1000, 32_766)) == (NONE, 1001, 0)
    bench.add(1001, 0)
    assert bench.init((1000, 32_766)) == (CONCURRENT, *NOBODY)
    bench.answer()
    assert bench.init((1000, 32_766)) == (FENCED, *NOBODY)


def test_a_new_producer_keeps_the_start_of_the_last_transaction(bench: Bench) -> None:
    """DescribeTransactions shows it (TransactionMetadata.completeTransitionTo, case Empty)."""
    bench.wait(5)
    bench.init()
    bench.add(1000, 0)
    bench.end(1000, 0, True)
    bench.answer()
    started = bench.metadata.current.start_timestamp_ms
    assert started > 0
    bench.wait(5)
    bench.init()
    assert bench.coordinator.queries.describe(ID).start_time_ms == started


def _at_epoch(bench: Bench, epoch: int) -> None:
    """Bring the id to an epoch without asking that often."""
    bench.init()
    assert bench.metadata.producer_epoch == 0
    bench.metadata.current = replace(bench.metadata.current, producer_epoch=epoch)


# ------------------------------------------------------------------------------- role changes


def test_a_load_replaces_what_an_earlier_leadership_has_left(bench: Bench) -> None:
    """KAFKA-9307, testSuccessfulReimmigration: it was not told that it was a follower."""
    bench.init()
    assert bench.elect(3).init() == (NONE, 1000, 1)


def test_before_that_such_a_load_never_ended() -> None:
    bench = Bench(rules=BeforeKafka9307()).elect()
    bench.init()
    loading = (Errors.COORDINATOR_LOAD_IN_PROGRESS, *NOBODY)
    assert bench.elect(3).init() == loading
    bench.resign(4)
    assert bench.init() == loading
    assert bench.elect(5).init() == loading
    bench.resign(None)
    assert bench.init() == loading


def test_an_append_of_an_old_epoch_waits_until_it_is_replicated_or_too_late(bench: Bench) -> None:
    """Its DelayedProduce knows no epoch; TransactionStateManager.updateCacheCallback looks then."""
    bench.init()
    bench.replicates = False
    assert bench.init() is None
    first = bench.late
    assert bench.elect(3).init() is None
    second = bench.late
    assert first == []
    bench.replicate()
    bench.settle()
    assert first == [(Errors.NOT_COORDINATOR, *NOBODY)]
    assert second == [(NONE, 1000, 2)]


def test_an_append_of_an_old_epoch_that_is_too_late_leaves_the_new_state_alone(
    bench: Bench,
) -> None:
    bench.init()
    bench.replicates = False
    assert bench.init(timeout_ms=5000) is None
    first = bench.late
    bench.elect(3)
    bench.wait(4)
    assert bench.init() is None
    bench.wait(1)
    assert first == [(Errors.COORDINATOR_NOT_AVAILABLE, *NOBODY)]
    bench.replicate()
    assert bench.late == [(NONE, 1000, 2)]
