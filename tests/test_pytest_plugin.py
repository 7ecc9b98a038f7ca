"""The pytest plugin: the fixture ``kafka``, its seed, and what a failed test shows."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Any

import pytest

pytest_plugins = ["pytester"]

PLUGIN = "kafkasim.pytest_plugin"

SMALL = {
    "name": "small", "claim": "x", "duration": "1s",
    "cluster": {"brokers": 1, "controllers": 1},
    "topics": [{"name": "orders"}],
    "workload": [{"kind": "producer", "rate": "20/s"}],
}  # fmt: skip

TESTS = f"""
SMALL = {SMALL!r}

def test_seed(kafka):
    assert kafka.run(SMALL).result.seed == 5
    assert kafka.run(SMALL, seed=6).result.seed == 6

def test_that_fails(kafka):
    outcome = kafka.run(SMALL, settings={{"expect.must-see": ["fenced"]}})
    assert outcome.verdict == "pass", kafka.why(outcome)
"""


@pytest.mark.slow
def test_the_seed_is_an_option_and_a_failure_says_how_to_run_it_again(pytester: Any) -> None:
    pytester.makepyfile(TESTS)
    known = any(one.value == PLUGIN for one in entry_points(group="pytest11"))  # installed
    loaded = () if known else ("-p", PLUGIN)
    told = pytester.runpytest("-p", "no:randomly", *loaded, "--kafkasim-seed", "5")
    told.assert_outcomes(passed=1, failed=1)
    told.stdout.fnmatch_lines([
        "*missing:fenced: fenced did not happen*",
        "*- kafkasim -*",
        "small, seed 5: fail (missing:fenced)",
        "  kafkasim replay *run-0",
        "  kafkasim explain *run-0",
    ])  # fmt: skip


@pytest.mark.slow
def test_a_failed_test_with_a_cluster_names_its_journal_and_the_command(pytester: Any) -> None:
    pytester.makepyfile(
        "def test_it(kafka_cluster):\n    assert not kafka_cluster.bootstrap_servers"
    )
    known = any(one.value == PLUGIN for one in entry_points(group="pytest11"))  # installed
    loaded = () if known else ("-p", PLUGIN)
    told = pytester.runpytest("-p", "no:randomly", *loaded)
    told.assert_outcomes(failed=1)
    told.stdout.fnmatch_lines(["the session is in *session.kafkasim", "  kafkasim replay *"])
