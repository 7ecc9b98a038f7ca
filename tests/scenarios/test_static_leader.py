"""What nobody assigns once a static member that leads its group has come back."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.groups.static_leader import (
    RETURNED,
    StaticLeaders,
)
from kafkasim.model import facts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from tests.scenarios.fact_makers import FakeTrace, Row, T, created

LINE = "group billing is at 0 of 4 in orders-1 (last read by nobody)"
GROWN: Row = (
    "controller-1",
    facts.PartitionChanged(9, T, 1, 1, 0, 0, (1,), (1,), "created", False),
)
OLD, NEW = "i-1", "i-2"


def _group(state: str, generation: int, leader: str) -> Row:
    told = facts.GroupState("billing", state, generation, (leader,), "range", "", leader)
    return "broker-1", told


def _has(member: str, *names: str) -> Row:
    return "broker-1", facts.GroupAssigned("billing", 1, member, names)


FORMED: list[Row] = [
    ("controller-1", created()), _group("CompletingRebalance", 1, OLD), _group("Stable", 1, OLD),
    _has(OLD, "orders-0"),
]  # fmt: skip
BACK: list[Row] = [_group("Stable", 1, NEW), _has(OLD), _has(NEW, "orders-0")]


def _excuse(*rows: Row, line: str = LINE, tells_leader: bool = True) -> str:
    trace = FakeTrace()
    leaders = StaticLeaders(trace, lambda node: tells_leader and node == "broker-1")
    trace.record(rows)
    return Progress(trace).stall_excuse([line], lambda _: "", leaders.excuse)


def test_the_new_process_of_a_static_leader_finds_nothing_new() -> None:
    assert _excuse(*FORMED, GROWN, *BACK) == RETURNED


def _joins(*topics: str) -> Row:
    told = facts.MemberRequest("billing", "", "i", "JoinGroup", -1, topics, ("range",), 1, 1)
    return "broker-1", told


def test_before_3_2_the_new_process_of_a_static_leader_watches_nothing() -> None:
    """It takes itself for a follower, and a partition may come before it or after it."""
    formed = [_joins("orders"), *FORMED]
    assert _excuse(*formed, GROWN, *BACK, tells_leader=False) == RETURNED
    assert _excuse(*formed, *BACK, GROWN, tells_leader=False) == RETURNED
    assert _excuse(*formed, *BACK, GROWN) == ""


def test_before_3_2_the_members_of_a_group_still_find_other_things() -> None:
    def excuse(*rows: Row) -> str:
        return _excuse(*rows, tells_leader=False)

    again = [_group("PreparingRebalance", 1, NEW), _group("CompletingRebalance", 2, NEW)]
    stable = _group("Stable", 2, NEW)
    formed = [_joins("orders"), *FORMED]
    assert excuse(_joins("bills"), *FORMED, *BACK, GROWN) == ""  # a pattern's new topic
    assert excuse(*formed, GROWN) == ""  # the leader never went
    assert excuse(*formed, *BACK) == ""  # there is no such partition
    assert excuse(*formed, *BACK, *again, stable, GROWN) == ""  # it leads the next generation


@pytest.mark.slow
@pytest.mark.parametrize(("version", "verdict"), [("2.8-zk", "expected"), ("3.9", "pass")])
def test_a_topic_grows_after_the_leader_came_back(version: str, verdict: str) -> None:
    member = {"kind": "consumer-group", "group": "billing"}
    config = {"session.timeout.ms": 30_000, "metadata.max.age.ms": 1000}
    scenario = {
        "name": "returned", "claim": "Before 3.2 nobody finds the new partitions.",
        "duration": "12s",
        "cluster": {
            "mode": "zookeeper", "kafka-version": version, "zookeepers": 1, "brokers": 3,
            "config": {"group.initial.rebalance.delay.ms": 500, "offsets.topic.num.partitions": 1},
        },
        "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3}],
        "workload": [
            {"kind": "producer", "rate": "20/s", "config": {"metadata.max.age.ms": 1000}},
            *[member | {"config": {**config, "group.instance.id": i}} for i in ("one", "two")],
        ],
        "faults": [{"kind": "crash", "node": f"consumer-{n}", "at": "3s", "for": "1s"}
                   for n in (1, 2)],
        "operations": [{"kind": "create-partitions", "at": "6s", "topic": "orders",
                        "partitions": 4}],
    }  # fmt: skip
    result = run(parse(scenario, "returned"), 1)
    anomalies = ["no-progress"] if verdict == "expected" else []
    assert (result.verdict, result.anomalies) == (verdict, anomalies)


def test_other_groups_must_read_all() -> None:
    assert _excuse(*FORMED, GROWN) == ""  # the leader never went
    assert _excuse(*FORMED, *BACK, GROWN) == ""  # its new process finds the partition
    assert _excuse(*FORMED, GROWN, *BACK, line=LINE.replace("orders-1", "orders-0")) == ""
    assert _excuse(*FORMED, GROWN, *BACK, line=LINE.replace("billing", "other")) == ""


def test_a_rebalance_assigns_the_partition() -> None:
    again = [_group("PreparingRebalance", 1, NEW), _group("CompletingRebalance", 2, NEW)]
    assert _excuse(*FORMED, GROWN, *BACK, *again, _group("Stable", 2, NEW)) == ""
