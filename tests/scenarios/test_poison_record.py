"""An application that fails at one record: it tries again for ever, skips it, or sets it aside."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import run

GROUP = {"kind": "consumer-group", "commit": "sync", "config": {"auto.offset.reset": "earliest"}}


def scenario(**keys: Any) -> dict[str, Any]:
    return {
        "name": "poison",
        "claim": "One record stops an application.",
        "duration": "3s",
        "cluster": {"brokers": 1, "controllers": 1,
                    "config": {"offsets.topic.num.partitions": 1,
                               "offsets.topic.replication.factor": 1,
                               "group.initial.rebalance.delay.ms": 0}},
        "topics": [{"name": "orders"}, {"name": "dead"}],
        "workload": [{"kind": "producer", "rate": "20/s"}, GROUP | keys],
        "expect": {"within": "5s", "permits": ["duplicate"]},
    }  # fmt: skip


def outcome(**keys: Any) -> tuple[list[str], list[str]]:
    result = run(parse(scenario(**keys), "poison"), 1)
    return result.anomalies, result.missing


def test_retrying_for_ever_is_no_progress() -> None:
    anomalies, missing = outcome(**{"poison-record": 20})
    assert anomalies == ["no-progress"]
    assert missing[0] == "consumer-1 fails at offset 20 of orders-0 again and again"


@pytest.mark.parametrize("then", [{"on-poison": "skip"},
                                  {"on-poison": "dead-letter", "dead-letter": "dead"}])  # fmt: skip
def test_setting_the_record_aside_is_progress(then: dict[str, Any]) -> None:
    assert outcome(**{"poison-record": 20}, **then) == ([], [])


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"on-poison": "dead-letter"}, "workload.1.poison-record: is missing"),
        ({"poison-record": 1, "on-poison": "dead-letter", "dead-letter": "x"}, "no topic 'x'"),
        ({"poison-record": 1, "handover": True}, "does not go with handover"),
    ],
)
def test_a_mistake_is_one_line(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError, match=message):
        parse(scenario(**keys), "f.toml")
