"""An application that raises is a finding of the run; what handles its errors goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from kafkasim.analysis.story.story import tell
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.report import findings
from kafkasim.scenarios.running.runner import run

FOUND = (
    "  application-failed: consumer-1: KafkaError: INVALID_SESSION_TIMEOUT: group group in"
    " consumer-1-task-1"
)


def refused(**changes: Any) -> dict[str, Any]:
    """Return a scenario whose only consumer asks for a session that is too short."""
    return {
        "name": "refused",
        "claim": "The application does not expect the error.",
        "duration": "3s",
        "cluster": {
            "brokers": 1,
            "controllers": 1,
            "config": {"group.min.session.timeout.ms": 6000,
                       "offsets.topic.num.partitions": 1,
                       "offsets.topic.replication.factor": 1},
        },
        "topics": [{"name": "orders"}],
        "workload": [
            {"kind": "producer", "rate": "20/s"},
            {"kind": "consumer-group", "config": {"session.timeout.ms": 5000}},
        ],
    } | changes  # fmt: skip


def test_the_verdict_names_it_and_nothing_that_follows_from_it(tmp_path: Path) -> None:
    result = run(parse(refused(), "refused"), 1, tmp_path)
    assert (result.verdict, result.failure, result.anomalies) == (
        "fail", "safety", ["application-failed"],
    )  # fmt: skip
    assert findings(result) == [FOUND]
    assert result.observations.keys() >= {"application-failed", "application-failed:KafkaError"}
    told = [line for line in tell(tmp_path, 40) if "raised" in line]
    assert len(told) == 1
    assert "the application of consumer-1 (consumer-1-task-1) raised KafkaError:" in told[0]


def test_a_scenario_may_permit_it() -> None:
    allowed = refused(expect={"permits": ["application-failed"]})
    assert run(parse(allowed, "refused"), 1).verdict == "expected"


def test_a_fault_that_restarts_the_host_starts_the_application_again() -> None:
    crash = {"kind": "crash", "node": "consumer-1", "at": "1s", "for": "1s"}
    result = run(parse(refused(faults=[crash]), "refused"), 1)
    assert [(a.name, a.count) for a in result.findings] == [("application-failed", 1)] * 2


def test_an_error_that_the_application_handles_is_no_failure() -> None:
    """A producer whose records are too large gets an exception for each, and goes on."""
    large = {"kind": "producer", "rate": "5/s", "value-size": "2MiB"}
    result = run(parse(refused(workload=[large]), "refused"), 1)
    assert (result.verdict, result.anomalies) == ("pass", [])


def test_a_consumer_whose_group_is_deleted_while_it_sleeps_fails_without_a_broken_promise() -> None:
    """It has committed nothing, so the coordinator deletes the group once its session is over."""
    sessions = {
        f"group.consumer.{name}.ms": number
        for name, number in {
            "min.session.timeout": 1000, "session.timeout": 1000,
            "min.heartbeat.interval": 300, "heartbeat.interval": 300,
        }.items()
    }  # fmt: skip
    cluster = refused()["cluster"]
    cluster["config"] |= sessions | {"offsets.retention.check.interval.ms": 200}
    readers = {
        "kind": "consumer-group", "group": "billing", "commit": "none",
        "config": {"group.protocol": "consumer"},
    }  # fmt: skip
    sleep = {"kind": "gc-pause", "node": "consumer-1", "at": "1s", "for": "3s"}
    asleep = refused(cluster=cluster, workload=[readers], faults=[sleep], duration="8s")
    result = run(parse(asleep, "asleep"), 1)
    assert result.observations["application-failed:KafkaError"] > 4_000_000
    assert (result.verdict, result.anomalies) == ("pass", [])
    awake = run(parse(asleep | {"faults": []}, "awake"), 1)
    assert "application-failed" not in awake.observations
