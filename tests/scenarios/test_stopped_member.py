"""A member that is stopped leaves its group; the group learns of a killed one by its session."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import ScenarioRun


def scenario(kind: str) -> Any:
    return parse(
        {
            "name": "ended-member",
            "claim": "A stopped member leaves its group, a killed one is removed.",
            "duration": "14s",
            "cluster": {
                "brokers": 3,
                "controllers": 1,
                "config": {
                    "offsets.topic.num.partitions": 1,
                    "group.initial.rebalance.delay.ms": 0,
                },
            },
            "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3}],
            "workload": [
                {"kind": "producer", "rate": "20/s"},
                {
                    "kind": "consumer-group",
                    "group": "billing",
                    "count": 2,
                    "commit": "auto",
                    "processing": "10ms",
                    "config": {"session.timeout.ms": 6000, "heartbeat.interval.ms": 1000},
                },
            ],
            "faults": [{"kind": kind, "node": "consumer-1", "at": "6s"}],
            "expect": {"permits": ["duplicate"]},
        },
        "ended-member",
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "reason", "verdict", "soonest_s", "latest_s"),
    [
        ("stop", "shutdown", ("pass", []), 0, 3.5),
        ("crash", "crash", ("expected", ["duplicate"]), 4, 8),
    ],
)
def test_the_survivor_takes_over(
    kind: str, reason: str, verdict: tuple[str, list[str]], soonest_s: float, latest_s: float
) -> None:
    """ConsumerCoordinator.close sends LeaveGroup; after kill -9 session.timeout.ms has to pass.

    Only the stopped one commits what it has handled. The survivor hears of the rebalance with its
    next heartbeat and joins again.
    """
    run = ScenarioRun(scenario(kind), 1, None, [])
    rows: list[tuple[int, str, Any]] = []
    for fact_type in (facts.HostStopped, facts.ConsumerAssigned):
        run.trace.subscribe(fact_type, lambda _seq, t, node, fact: rows.append((t, node, fact)))
    result = run.execute()
    assert (result.verdict, result.anomalies) == verdict
    ended = [(t, f) for t, node, f in rows if type(f) is facts.HostStopped and node == "consumer-1"]
    assert [fact.reason for _, fact in ended] == [reason]
    owns_all = [
        t
        for t, node, fact in rows
        if type(fact) is facts.ConsumerAssigned
        and (node, fact.assignment) == ("consumer-2", ("orders-0", "orders-1"))
        and t > ended[0][0]
    ]
    assert soonest_s <= (owns_all[0] - ended[0][0]) / 1e6 <= latest_s
