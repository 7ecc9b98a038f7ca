"""Admin's calls about transactions: whom they ask, what they ask again (KIP-664, KIP-588)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import ClientConfig
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    DescribedTransaction,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeProducersResponse,
    DescribeTransactionsRequest,
    DescribeTransactionsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListTransactionsRequest,
    ListTransactionsResponse,
    ProducerState,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness

NONE = Errors.NONE
TP, TP1 = TopicPartition("t", 0), TopicPartition("t", 1)
MINUTE_MS = 60_000


def cluster(**answers: Any) -> Cluster:
    """A cluster of two partitions in which broker-1 coordinates all transactional ids."""
    made = Cluster(partitions=2)
    found = FindCoordinatorResponse(NONE, 1, "broker-1")
    made.handlers[FindCoordinatorRequest] = lambda _n, _m: found
    for name, answer in answers.items():
        made.handlers[KINDS[name]] = answer
    return made


KINDS = {
    "describe": DescribeTransactionsRequest,
    "list": ListTransactionsRequest,
    "init": InitProducerIdRequest,
    "producers": DescribeProducersRequest,
    "markers": WriteTxnMarkersRequest,
    "find": FindCoordinatorRequest,
}


def described(name: str, *partitions: TopicPartition, error: Errors = NONE) -> Any:
    one = DescribedTransaction(error, name, "Ongoing", MINUTE_MS, 1, 7, 0, partitions)
    return DescribeTransactionsResponse((one,))


def test_transactions_are_described_by_their_coordinators() -> None:
    errors = [Errors.NOT_COORDINATOR]

    def describe(_node: str, request: DescribeTransactionsRequest) -> Any:
        (name,) = request.transactional_ids
        return described(name, error=errors.pop() if errors else NONE)

    told = cluster(describe=describe)
    result = Harness(ClientConfig(), told).result("describe_transactions", ("a", "b"))
    assert [(each.transactional_id, each.error) for each in result] == [("a", NONE), ("b", NONE)]
    kinds = {message.key_type for message in told.requests(FindCoordinatorRequest)}
    assert kinds == {1}


def test_an_id_without_a_state_is_an_answer() -> None:
    unknown = Errors.TRANSACTIONAL_ID_NOT_FOUND
    told = cluster(describe=lambda _n, _m: described("a", error=unknown))
    (found,) = Harness(ClientConfig(), told).result("describe_transactions", ("a",))
    assert found.error is unknown


def test_all_brokers_list_their_transactions() -> None:
    loading = [Errors.COORDINATOR_LOAD_IN_PROGRESS]

    def listed(node: str, request: ListTransactionsRequest) -> Any:
        assert request == ListTransactionsRequest(("Ongoing",))
        if node == "broker-1" and loading:
            return ListTransactionsResponse(loading.pop(), (), ())
        return ListTransactionsResponse(NONE, (), ((f"of {node}", 1, "Ongoing"),))

    told = cluster(list=listed)
    result = Harness(ClientConfig(), told).result("list_transactions", ("Ongoing",))
    brokers = sorted(dict.fromkeys(node for node, m in told.seen if type(m) is KINDS["list"]))
    assert result == tuple((f"of {node}", 1, "Ongoing") for node in brokers)


def test_producers_are_fenced_once_their_transaction_is_aborted() -> None:
    answers = [
        InitProducerIdResponse(Errors.CONCURRENT_TRANSACTIONS, -1, -1),
        InitProducerIdResponse(NONE, 7, 3),
    ]
    told = cluster(init=lambda _n, _m: answers.pop(0))
    result = Harness(ClientConfig(), told).result("fence_producers", ("a",))
    assert result == (("a", NONE, 7, 3),)
    (first, _) = told.requests(InitProducerIdRequest)
    assert first == InitProducerIdRequest("a", 30_000)


def test_an_id_that_no_coordinator_can_have_is_an_error() -> None:
    refused = FindCoordinatorResponse(Errors.INVALID_REQUEST, -1, "")
    told = cluster(find=lambda _n, _m: refused)
    result = Harness(ClientConfig(), told).result("fence_producers", ("a",))
    assert result == (("a", Errors.INVALID_REQUEST, -1, -1),)


def test_an_abort_goes_to_the_leader_past_the_coordinator() -> None:
    errors = [Errors.NOT_LEADER_OR_FOLLOWER, Errors.TRANSACTION_COORDINATOR_FENCED]

    def write(_node: str, request: WriteTxnMarkersRequest) -> Any:
        (marker,) = request.markers
        assert (marker.producer_id, marker.producer_epoch, marker.coordinator_epoch) == (7, 2, 5)
        assert not marker.committed
        return WriteTxnMarkersResponse(((7, ((TP, errors.pop(0)),)),))

    told = cluster(markers=write)
    result = Harness(ClientConfig(), told).result("abort_transaction", TP, 7, 2, 5)
    assert result is Errors.TRANSACTION_COORDINATOR_FENCED


def producers(states: dict[TopicPartition, tuple[ProducerState, ...]]) -> Any:
    def answer(_node: str, request: DescribeProducersRequest) -> Any:
        found = [DescribeProducersPartition(tp, NONE, states[tp]) for tp in request.partitions]
        return DescribeProducersResponse(tuple(found))

    return answer


OPEN = ProducerState(7, 0, 4, 0, 1, 100)
LISTED = ListTransactionsResponse(NONE, (), (("a", 7, "Ongoing"),))


def search(told: Cluster, after_ms: int = 16 * MINUTE_MS) -> Any:
    harness = Harness(ClientConfig(), told)
    harness.run(after_ms)
    call = harness.call("find_hanging_transactions", (TP, TP1), 15 * MINUTE_MS)
    harness.run(after_ms + 5000)
    return harness.replies[call]


def test_a_transaction_hangs_if_its_coordinator_does_not_know_the_partition() -> None:
    states = {TP: (OPEN,), TP1: (OPEN,)}
    told = cluster(
        producers=producers(states),
        list=lambda _n, _m: LISTED,
        describe=lambda _n, _m: described("a", TP1),
    )
    assert search(told) == ((TP, OPEN),)


def test_a_transaction_of_a_producer_that_nobody_knows_hangs() -> None:
    told = cluster(
        producers=producers({TP: (OPEN,), TP1: ()}),
        list=lambda _n, _m: ListTransactionsResponse(NONE, (), ()),
    )
    assert search(told) == ((TP, OPEN),)


def test_a_young_or_closed_transaction_does_not_hang() -> None:
    closed = ProducerState(7, 0, 4, 0, 1, -1)
    told = cluster(producers=producers({TP: (closed,), TP1: ()}))
    assert search(told) == ()
    told = cluster(producers=producers({TP: (OPEN,), TP1: ()}))
    assert search(told, after_ms=14 * MINUTE_MS) == ()
