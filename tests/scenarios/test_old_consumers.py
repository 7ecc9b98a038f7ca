"""Groups in ZooKeeper: what the language refuses, and what the judge of owners says of facts."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.invariants.ownership import OldOwners
from kafkasim.analysis.judging.promise import follow
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language.spec import ScenarioError, parse
from tests.analysis.owner_cases import OWNERS, TOPIC


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
        (spec(config={"group.id": "g"}), "workload.0.config.group.id: kafkasim sets this property"),
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


def followed(trace: Trace) -> tuple[Findings, OldOwners]:
    history = History(trace, lambda _topic: False)
    findings = Findings(history)
    owners = OldOwners(history, findings)
    follow(trace, owners)
    return findings, owners


@pytest.mark.parametrize("name", OWNERS)
def test_what_the_judge_of_owners_says(name: str) -> None:
    story, said = OWNERS[name]
    trace = Trace()
    findings, _ = followed(trace)
    trace.tell(*TOPIC)
    for node, fact in story:
        trace.tell(node, fact)
    found = [violation.text for violation in findings.all]
    assert found == ([said] if said else [])
