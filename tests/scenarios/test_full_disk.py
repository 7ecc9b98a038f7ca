"""Log directories with a capacity: which of them fills, and what kafka-log-dirs says of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.figures.describe import log_dirs
from kafkasim.model import facts
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun, run
from kafkasim.scenarios.running.stored import state_at

MIB = 1 << 20


def scenario(**changes: Any) -> dict[str, Any]:
    """Return a scenario that writes 2 MiB a second to each of two partitions of one broker."""
    return {
        "name": "full",
        "claim": "One of two log directories fills.",
        "duration": "6s",
        "cluster": {"brokers": 1, "controllers": 1, "disk-capacity": "8MiB",
                    "config": {"log.dirs": "/d1,/d2", "metadata.log.dir": "/d2"}},
        "topics": [{"name": "orders", "partitions": 2}],
        "workload": [{"kind": "producer", "rate": "40/s", "value-size": "100KiB"}],
        "expect": {"permits": ["no-progress"], "within": "1s"},
    } | changes  # fmt: skip


@pytest.mark.slow
def test_each_log_directory_fills_by_itself_and_goes_offline() -> None:
    seen: list[tuple[str, str]] = []
    made = ScenarioRun(parse(scenario(), "test"), 0, None, ())
    for kind in (facts.DiskFilled, facts.LogDirOffline):
        made.trace.subscribe(
            kind, lambda _seq, _t, _node, fact: seen.append((type(fact).__name__, fact.directory))
        )
    made.execute()
    first = seen[0][1]
    assert seen[:2] == [("DiskFilled", first), ("LogDirOffline", first)]


@pytest.mark.slow
def test_the_sizes_of_logs_are_those_of_the_moment(tmp_path: Path) -> None:
    given = library.scenario("retention-fits-disk")[0]
    assert run(given, 0, tmp_path).verdict == "pass"

    def sizes(at: str) -> list[int]:
        (*_, broker) = json.loads(log_dirs(state_at(tmp_path, at, logs=True), "metrics")[-1])[
            "brokers"
        ]
        return [entry["size"] for entry in broker["logDirs"][0]["partitions"]]

    early, late = sizes("3s"), sizes("end")
    assert sum(early) < 3 * 10 * MIB < sum(late) < 60 * MIB
    assert all(10 * MIB < size < 24 * MIB for size in late)


def test_only_brokers_have_a_capacity() -> None:
    cluster = {"controllers": 1, "nodes": {"controller-1": {"disk-capacity": 1}}}
    wrong = "cluster.nodes.controller-1.disk-capacity: only brokers have log directories with one"
    with pytest.raises(ScenarioError, match=wrong):
        parse(scenario(cluster=cluster), "test")
