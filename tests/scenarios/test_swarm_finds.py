"""Historical bugs that the search found in a seed of its own draws.

``tests/bugs/found`` holds each scenario as it was drawn, so a later change of the draw changes none
of them; the run's seed is the one that drew it.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkasim.analysis.judging.verdict import in_order
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

FOUND = sorted((Path(__file__).parents[1] / "bugs" / "found").glob("*.json"))


@pytest.mark.slow
@pytest.mark.parametrize("path", FOUND, ids=[path.stem for path in FOUND])
def test_a_seed_finds_the_bug(path: Path) -> None:
    found = json.loads(path.read_text(encoding="utf-8"))
    scenario = parse(found["scenario"], path.name)
    with_it = run(scenario, found["seed"], None, [found["variant"]])
    failed = [name for name, fails in in_order(with_it.findings).items() if fails]
    assert (with_it.verdict, failed) == ("fail", found["anomalies"])
    assert run(scenario, found["seed"]).verdict != "fail"
