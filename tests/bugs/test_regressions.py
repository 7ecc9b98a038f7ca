"""Every bug that a search found leaves its seed here: it stays fixed.

``seeds/*.json`` hold the scenario's data as it was (the generator of the swarm moves on), the seed,
and the story of the bug.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.showing.report import screen

SEEDS = sorted((Path(__file__).parent / "seeds").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", SEEDS, ids=lambda path: path.stem)
def test_what_failed_once_does_not_fail_again(path):
    found = json.loads(path.read_text())
    result = run(parse(found["scenario"], path.name), found["seed"])
    assert result.verdict != "fail", f"{found['story']}\n{screen(result, str(path))}"


def test_each_seed_tells_its_story():
    assert SEEDS
    for path in SEEDS:
        assert json.loads(path.read_text()).keys() == {"seed", "story", "scenario"}, path.name
