"""Every bug that a search found leaves its seed here, so that it stays fixed.

``seeds/*.json`` hold the scenario's data as it was drawn (the swarm's generator has changed since),
the seed, the story of the bug, and the verdict and anomalies of the run as it must be. A change of
the model that changes them on purpose says so in its commit.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.showing.report import screen

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.json"))


KEYS = ["seed", "story", "verdict", "anomalies", "scenario"]


@pytest.mark.slow
@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_what_failed_once_shows_what_it_should(path):
    found = json.loads(path.read_text(encoding="utf-8"))
    result = run(parse(found["scenario"], path.name), found["seed"])
    told = f"{found['story']}\n{screen(result, str(path))}"
    assert [result.verdict, result.anomalies] == [found["verdict"], found["anomalies"]], told


def test_each_seed_tells_its_story_and_pins_its_verdict():
    assert SEEDS
    for path in SEEDS:
        found = json.loads(path.read_text(encoding="utf-8"))
        assert list(found) == KEYS, path.name
        assert (found["verdict"], bool(found["anomalies"])) in (("pass", False), ("expected", True))
