"""Answers with an error for each partition: what the transactional producer does with them.

Models AddPartitionsToTxnHandler and TxnOffsetCommitHandler of Kafka's TransactionManager. The
handlers read the errors in their order, and some of them end the reading.
"""

from __future__ import annotations

import pytest

from kafkasim.model.client.exceptions import CommitFailedError, KafkaError
from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked
from kafkasim.model.messages import AddPartitionsToTxnRequest, TxnOffsetCommitRequest
from tests.model.client_harness import Harness
from tests.model.test_transactional_producer import Group, state
from tests.model.transactional_broker import TransactionalCluster, send, transactional

UNKNOWN, LEFT = Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.OPERATION_NOT_ATTEMPTED
BOTH = {("in", 0): (5, -1), ("in", 1): (6, -1)}
COMMIT = "TxnOffsetCommit in-0@5, in-1@6"


def two_partitions(cluster: TransactionalCluster, *errors: Errors) -> Harness:
    """Have two partitions added by one request, which is answered with these errors.

    The first request names one partition; its retry comes after one that names both.
    """
    h = transactional(cluster)
    loading = Errors.COORDINATOR_LOAD_IN_PROGRESS
    cluster.script(AddPartitionsToTxnRequest, loading, NONE, errors)
    h.result("begin_transaction")
    for partition in (0, 1):
        h.call("send", "t", None, partition, 10, partition, False)
    h.run(20)
    return h


def added(cluster: TransactionalCluster) -> list[str]:
    return [line for line in cluster.wire if line.startswith("AddPartitions")]


@pytest.mark.parametrize("errors", [(UNKNOWN, LEFT), (LEFT, UNKNOWN)])
def test_partitions_are_added_again_when_one_is_not_known_yet(errors: tuple[Errors, ...]) -> None:
    """The topic is new to the coordinator. What was not attempted is no error of its own then."""
    cluster = TransactionalCluster(version=1)
    h = two_partitions(cluster, *errors)
    assert h.result("commit_transaction") is None
    names = " -> ".join(("AddPartitionsToTxn t-0, t-1", ", ".join(each.name for each in errors)))
    assert added(cluster)[-2:] == [names, "AddPartitionsToTxn t-0, t-1"]
    assert [fact.record_ids for fact in h.of(Acked)] == [(0,), (1,)]


@pytest.mark.parametrize(
    ("errors", "then"),
    [
        ((LEFT, LEFT), State.ABORTABLE_ERROR),
        ((LEFT, Errors.INVALID_TXN_STATE), State.FATAL_ERROR),
        ((LEFT, Errors.PRODUCER_FENCED), State.FATAL_ERROR),
        ((LEFT, Errors.TRANSACTION_ABORTABLE), State.ABORTABLE_ERROR),
        ((NONE, Errors.INVALID_REQUEST), State.ABORTABLE_ERROR),
    ],
)
def test_the_worst_error_of_a_partition_decides(errors: tuple[Errors, ...], then: State) -> None:
    cluster = TransactionalCluster(version=1)
    h = two_partitions(cluster, *errors)
    h.run(500)
    assert state(h) is then
    assert len(added(cluster)) == 3


def test_partitions_that_could_not_be_added_are_pending_no_more() -> None:
    """The next transaction asks for its own only (pendingPartitionsInTransaction)."""
    cluster = TransactionalCluster(version=1)
    h = two_partitions(cluster, NONE, Errors.INVALID_REQUEST)
    h.run(500)
    assert h.result("abort_transaction") is None
    h.result("begin_transaction")
    send(h, 7, 1)
    assert h.result("commit_transaction") is None
    assert added(cluster)[-1] == "AddPartitionsToTxn t-1"


def offsets(cluster: TransactionalCluster, *answers: tuple[Errors, ...]) -> tuple[Harness, object]:
    """Take two offsets into a transaction; return what the call ended with."""
    h = transactional(cluster)
    cluster.script(TxnOffsetCommitRequest, *answers)
    h.result("begin_transaction")
    outcome = h.result("send_offsets_to_transaction", BOTH, Group())
    cluster.wire[:] = [line for line in cluster.wire if not line.startswith("Add")]
    return h, outcome


@pytest.mark.parametrize("version", [1, 2])
def test_offsets_are_sent_until_each_has_been_stored(version: int) -> None:
    """A retry has all offsets, as the request was built; each needs to be stored once."""
    cluster = TransactionalCluster(version)
    h, outcome = offsets(cluster, (NONE, UNKNOWN), (UNKNOWN, NONE))
    assert outcome is None
    assert cluster.wire == [
        "FindCoordinator g",
        f"{COMMIT} -> NONE, UNKNOWN_TOPIC_OR_PARTITION",
        f"{COMMIT} -> UNKNOWN_TOPIC_OR_PARTITION, NONE",
    ]
    assert h.result("commit_transaction") is None


def test_a_coordinator_that_is_lost_twice_in_an_answer_is_looked_up_once() -> None:
    cluster = TransactionalCluster()
    lost = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE)
    _, outcome = offsets(cluster, lost)
    assert outcome is None
    assert cluster.wire == [
        "FindCoordinator g",
        f"{COMMIT} -> NOT_COORDINATOR, COORDINATOR_NOT_AVAILABLE",
        "FindCoordinator g",
        COMMIT,
    ]


@pytest.mark.parametrize(
    ("errors", "raised", "then"),
    [
        ((UNKNOWN, Errors.ILLEGAL_GENERATION), CommitFailedError, State.ABORTABLE_ERROR),
        ((NONE, Errors.FENCED_INSTANCE_ID), KafkaError, State.ABORTABLE_ERROR),
        ((Errors.OFFSET_METADATA_TOO_LARGE, NONE), KafkaError, State.FATAL_ERROR),
        ((NONE, Errors.OFFSET_METADATA_TOO_LARGE), KafkaError, State.FATAL_ERROR),
        ((UNKNOWN, Errors.PRODUCER_FENCED), KafkaError, State.FATAL_ERROR),
    ],
)
def test_an_offset_that_is_refused_for_good_ends_the_call(
    errors: tuple[Errors, ...], raised: type, then: State
) -> None:
    cluster = TransactionalCluster()
    h, outcome = offsets(cluster, errors)
    assert isinstance(outcome, raised)
    assert state(h) is then
    h.run(500)
    assert len(cluster.wire) == 2  # the lookup, and no retry


def test_offsets_of_a_refused_call_are_not_in_the_next_one() -> None:
    """A result that has failed clears pendingTxnOffsetCommits, also those that were stored."""
    cluster = TransactionalCluster()
    h, _ = offsets(cluster, (UNKNOWN, Errors.ILLEGAL_GENERATION))
    assert h.result("abort_transaction") is None
    h.result("begin_transaction")
    assert h.result("send_offsets_to_transaction", {("in", 2): (9, -1)}, Group()) is None
    assert cluster.wire[-1] == "TxnOffsetCommit in-2@9"
