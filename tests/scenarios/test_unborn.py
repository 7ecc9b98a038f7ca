"""What waits for a coordinator's partition whose creation no ZooKeeper answer confirmed."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.model.coordinator.hashing import partition_for
from kafkasim.scenarios.judging.progress import Progress
from kafkasim.scenarios.judging.transactions.liveness.unborn import LOST_ANSWER, Unborn
from tests.scenarios.fact_makers import FakeTrace, Row

LAG = "group billing is at 0 of 4 in orders-0 (last read by nobody)"
SENDS = "producer-1 has records that are neither acknowledged nor failed"
IDS = {"producer-1": "shop", "processor-1": "billing-1", "processor-2": "billing-2"}
PARTITIONS = 5
FOUND: Row = ("broker-2", facts.ZooKeeperConnection(5, "CONNECTED", "zookeeper-2"))


def _created(topic: str) -> Row:
    return ("broker-2", facts.TopicCreated(1, "C", topic, PARTITIONS, 3, 1))


def _failed(name: str, error: str = "NODEEXISTS") -> Row:
    return ("broker-2", facts.StateChangeFailed("C", partition_for(name, PARTITIONS), error))


def _elected(name: str) -> Row:
    number = partition_for(name, PARTITIONS)
    state = facts.PartitionChanged(9, "C", number, 1, 0, 0, (1,), (1,), "loaded", False)
    return ("broker-3", state)


def _excuse(rows: list[Row], line: str, *members: str) -> str:
    trace = FakeTrace()
    unborn = Unborn(trace, IDS, {"billing": members})
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", unborn.excuse)


@pytest.mark.parametrize(
    ("topic", "name", "line"),
    [("__consumer_offsets", "billing", LAG), ("__transaction_state", "shop", SENDS)],
)
def test_a_client_waits_for_a_partition_whose_creation_was_not_answered(
    topic: str, name: str, line: str
) -> None:
    created, failed = _created(topic), _failed(name)
    for rows, excuse in (
        ([created, FOUND, failed], LOST_ANSWER),
        ([FOUND, created, failed], ""),  # it never lost a connection since
        ([created, FOUND, failed, _elected(name)], ""),  # the next controller knows it
        ([created, FOUND, _failed(name, "NONODE")], ""),
        ([created, FOUND, _failed("another")], ""),
        ([_created("orders"), FOUND, failed], ""),
    ):
        assert _excuse(rows, line) == excuse


def test_a_producer_without_transactions_waits_for_no_coordinator() -> None:
    rows = [_created("__transaction_state"), FOUND, _failed("shop")]
    assert _excuse(rows, SENDS.replace("producer-1", "producer-2")) == ""


def test_processors_subscribe_once_they_have_their_producer_ids() -> None:
    rows = [_created("__transaction_state"), FOUND, _failed("billing-1")]
    assert _excuse(rows, LAG, "processor-1") == LOST_ANSWER
    assert _excuse(rows, LAG, "processor-1", "processor-2") == ""  # one of them can read
    assert _excuse([*rows, _failed("billing-2")], LAG, "processor-1", "processor-2") == LOST_ANSWER
    assert _excuse(rows, LAG, "consumer-1") == ""
    assert _excuse(rows, LAG) == ""
