"""Every bug that a search found leaves its seed here, so that it stays fixed.

``seeds/*.json`` hold the scenario's data as it was drawn (the swarm's generator has changed since),
the seed, the story of the bug, and the verdict and anomalies of the run as it must be. A change of
the model that changes them on purpose says so in its commit. A run that stands still for minutes
may end early (``expect.within``): later than each timeout that it sets, and with the same missing.

A seed in which an excuse is in force runs in ``tests/scenarios/test_excuses_hide_no_variant.py``,
which holds it to the same, and once is enough.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkasim.analysis.judging.verdict import Result
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.report import screen
from kafkasim.scenarios.running.runner import run
from tests.scenarios.excuse_cases import CASES

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.json"))
LONG = {
    "a-share-group-reads-on-slowly",
    "a-throttled-processor-reads-on-slowly",
    "aborted-and-its-marker-lost",
    "broker-without-a-quorum-ends",
    "completion-lost-to-a-sleeping-thread",
    "epoch-write-behind-background-flushes",
    "fetch-parked-for-another-partition",
    "group-below-the-minimum",
    "leader-without-a-vote-strands-its-partitions",
    "log-start-past-an-open-transaction",
    "marker-below-the-minimum-behind-a-lost-answer",
    "rebalance-after-a-downgrade-is-forgotten",
    "removed-from-a-log-that-was-lost",
    "removed-leader-has-the-longer-log",
    "share-read-gap-goes-on-with-done-segment",
    "share-records-behind-the-gap-done-anew",
    "share-rollback-below-log-start",
    "share-start-between-two-batches",
    "transaction-began-in-a-gap",
    "voter-added-with-the-id-of-a-lost-disk",
}
"""Seeds that take more than four CPU seconds each. They run in ``make soak``."""
WITH_AN_EXCUSE = {case.scenario for case in CASES if case.is_seed_as_found}

KEYS = ["seed", "story", "verdict", "anomalies", "scenario"]


def hold(result: Result, path: Path) -> None:
    """Hold the run of a seed to the verdict and the anomalies that its file pins."""
    found = json.loads(path.read_text(encoding="utf-8"))
    told = f"{found['story']}\n{screen(result, str(path))}"
    assert [result.verdict, result.anomalies] == [found["verdict"], found["anomalies"]], told


@pytest.mark.slow
@pytest.mark.parametrize(
    "path",
    [
        pytest.param(path, marks=[pytest.mark.soak] if path.stem in LONG else [], id=path.stem)
        for path in SEEDS
        if path.stem not in WITH_AN_EXCUSE
    ],
)
def test_what_failed_once_shows_what_it_should(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    hold(run(parse(found["scenario"], path.name), found["seed"]), path)


def test_each_seed_tells_its_story_and_pins_its_verdict():
    assert {path.stem for path in SEEDS} > WITH_AN_EXCUSE | LONG
    for path in SEEDS:
        found = json.loads(path.read_text(encoding="utf-8"))
        assert list(found) == KEYS, path.name
        told = (found["verdict"], bool(found["anomalies"]))
        accepted = told == ("fail", True) and "is flagged as stalled: accepted" in found["story"]
        assert accepted or told in (("pass", False), ("expected", True)), path.name
