"""No excuse hides a variant: in a run that a loss or a hole of Kafka excuses, a broken rule fails.

A stored scenario for each excuse runs twice with one seed. By the rules of Kafka nothing fails,
because all that is found is expected. With the variant the run fails by what the variant adds.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import run
from tests.bugs.test_regressions import hold
from tests.scenarios.excuse_case import Case
from tests.scenarios.excuse_cases import CASES

LONG = {
    "a deposed coordinator",
    "a forgotten expansion",
    "a missed abort marker",
    "a transaction that an excused stall leaves open",
    "deleted inputs that are there again",
    "offsets that a failed transaction left over",
    "offsets that have expired",
}
"""Excuses whose two runs take longest, each some CPU seconds. They run in ``make soak``."""

BUGS = Path(__file__).parents[1] / "bugs"


def _seed(case: Case) -> Path:
    return BUGS / "seeds" / f"{case.scenario}.json"


def _scenario(case: Case) -> tuple[Scenario, int]:
    if case.seed is not None:
        own = Path(__file__).parent / f"{case.scenario}.toml"
        return library.scenario(str(own) if own.exists() else case.scenario)[0], case.seed
    path = _seed(case)
    found = json.loads(path.read_text(encoding="utf-8"))
    return parse(found["scenario"], path.name), found["seed"]


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.soak] if case.excuse in LONG else [], id=case.excuse)
        for case in CASES
    ],
)
def test_a_variant_fails_under_the_excuse(case: Case) -> None:
    scenario, seed = _scenario(case)
    plain = run(scenario, seed)
    assert plain.verdict == ("expected" if plain.expected else "pass")
    if case.is_seed_as_found:
        hold(plain, _seed(case))
    with_it = run(scenario, seed, variants=[case.variant])
    assert with_it.verdict == "fail"
    assert case.fails in with_it.anomalies
    assert case.fails not in with_it.expected
    assert case.fails not in plain.anomalies or case.fails in plain.expected
