"""Groups in ZooKeeper: what the language refuses, and what the judge of owners says of facts."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.judging.invariants.owners import Owners
from kafkasim.scenarios.judging.invariants.traced import TracedCluster
from kafkasim.scenarios.language.spec import ScenarioError, parse


def spec(mode: str = "zookeeper", **group: Any) -> dict[str, Any]:
    return {
        "name": "old",
        "claim": "c",
        "duration": "1s",
        "cluster": {"mode": mode},
        "topics": [{"name": "t", "replication-factor": 3}],
        "workload": [{"kind": "consumer-group", "protocol": "zookeeper", **group}],
    }


def test_an_old_consumer_has_a_group_in_zookeeper_mode() -> None:
    assert parse(spec(config={"rebalance.max.retries": 2}), "x").workload[0].kind


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (spec("kraft"), 'workload.0.protocol: "zookeeper" needs cluster.mode = "zookeeper"'),
        (spec(commit="async"), "workload.0.commit: an old consumer has no async commit"),
        (spec(app="a.py"), 'workload.0.app: needs protocol = "coordinator"'),
        (spec(config={"group.id": "g"}), "workload.0.config.group.id: follows from the scenario"),
        (spec(config={"session.timeout.ms": 1}), "workload.0.config.session.timeout.ms: unknown"),
        (
            spec(**{"poison-record": 1}),
            "workload.0.on-poison: an old consumer cannot seek back; allowed: skip, dead-letter",
        ),
    ],
)
def test_what_an_old_consumer_does_not_have_is_refused(given: Any, wanted: str) -> None:
    with pytest.raises(ScenarioError) as refused:
        parse(given, "x")
    assert str(refused.value).startswith(f"x: {wanted}")


def test_kraft_mode_refuses_it_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    setting = ["--set", "workload.1.protocol=zookeeper", "--set", "workload.1.config={}"]
    assert invoke(["run", "consumer-crash-rebalance", *setting]) == 2
    (told,) = capsys.readouterr().err.strip().splitlines()
    assert told.endswith('"zookeeper" needs cluster.mode = "zookeeper"; allowed: coordinator')


class Trace:
    """Facts by hand."""

    def __init__(self) -> None:
        self.handlers: dict[type, list[Any]] = {}
        self.seq = 0

    def subscribe(self, kind: type, handler: Any) -> None:
        self.handlers.setdefault(kind, []).append(handler)

    def unsubscribe(self, kind: type, handler: Any) -> None:
        self.handlers[kind].remove(handler)

    def tell(self, node: str, fact: Any) -> None:
        self.seq += 1
        for handler in list(self.handlers.get(type(fact), ())):
            handler(self.seq, self.seq, node, fact)


def owner(who: str, event: str, partition: int = 0) -> tuple[str, Any]:
    return who, facts.PartitionOwner("g", f"id-{who}", "t", partition, event, "")


def session(who: str, number: int) -> tuple[str, Any]:
    return who, facts.ZooKeeperConnection(number, "CONNECTED", "zookeeper-1")


def ended(who: str, number: int, event: str = "expired") -> tuple[str, Any]:
    return "zookeeper-1", facts.ZooKeeperSession(number, event, who, "zookeeper-1", 9)


def done(who: str) -> tuple[str, Any]:
    return who, facts.RebalanceAttempt("g", f"id-{who}", 1, "done", "")


def stopped_reading(who: str) -> tuple[str, Any]:
    return who, facts.ConsumerRevoked("g", f"id-{who}", 1, ("t-0",), False)


def polled(who: str) -> tuple[str, Any]:
    return who, facts.Polled("g", f"id-{who}", "T", 0, 8, 9, (7,), (1,))


C1_OWNS = [session("c1", 1), owner("c1", "claimed"), done("c1")]


@pytest.mark.parametrize(
    ("story", "said"),
    [
        ([*C1_OWNS, owner("c2", "claimed")], "group g: id-c1 and id-c2 both own t-0"),
        ([*C1_OWNS, stopped_reading("c1"), owner("c1", "released"), owner("c2", "claimed")], ""),
        ([*C1_OWNS, ended("c1", 1), owner("c2", "claimed")], ""),
        ([*C1_OWNS, ended("c1", 1, "expiring"), owner("c2", "claimed")], ""),
        # Another session of the same host is not the one that holds it.
        ([*C1_OWNS, ended("c1", 5), owner("c2", "claimed")],
         "group g: id-c1 and id-c2 both own t-0"),
        ([*C1_OWNS, ("c1", facts.HostStopped("crash")), owner("c2", "claimed")], ""),
        # A zombie reads on until it knows; nothing fences it.
        ([*C1_OWNS, ended("c1", 1), owner("c2", "claimed"), polled("c1")], ""),
        ([*C1_OWNS, owner("c1", "released"), polled("c1")],
         "group g: id-c1 gets offset 7 of t-0, which it has released"),
        ([*C1_OWNS, owner("c1", "released"), owner("c1", "claimed"), polled("c1")], ""),
        # What was held when the session ended is others' now.
        ([*C1_OWNS, session("c1", 2), stopped_reading("c1"), owner("c1", "released")],
         "group g: id-c1 releases t-0, which it held in a session that has ended"),
        # But a rebalance that was under way when the session ended goes on.
        ([*C1_OWNS, stopped_reading("c1"), session("c1", 2), owner("c1", "released")], ""),
    ],
)  # fmt: skip
def test_what_the_judge_of_owners_says(story: list[tuple[str, Any]], said: str) -> None:
    trace = Trace()
    cluster = TracedCluster(trace, lambda *_: None, lambda _: "", lambda _: False)
    Owners(cluster)
    cluster.topics["T"] = facts.TopicCreated(1, "T", "t", 1, 1, 1)
    for node, fact in story:
        trace.tell(node, fact)
    found = [violation.message for violation in cluster.violations]
    assert found == ([said] if said else [])


def test_a_partition_without_an_owner_is_missing() -> None:
    trace = Trace()
    owners = Owners(TracedCluster(trace, lambda *_: None, lambda _: "", lambda _: False))
    trace.tell(*owner("c1", "claimed", 0))
    trace.tell(*owner("c1", "conflict", 1))
    assert owners.missing("g", ["t-0", "t-1"]) == ["t-1 has no owner in group g"]
