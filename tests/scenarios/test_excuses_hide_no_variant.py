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
from tests.scenarios.excuse_beside import with_group_beside
from tests.scenarios.excuse_case import Case
from tests.scenarios.excuse_cases import CASES

LONG = {
    "a broker that a lost quorum leaves in ISRs",
    "a broker that gave up its registration",
    "a coordinator's partition that nobody leads",
    "a deposed coordinator",
    "a forgotten expansion",
    "a high watermark that a follower has not taken",
    "a high watermark that too few replicas are left to move",
    "a leader of the quorum that is no voter",
    "a leader that was lost before ELR was turned on",
    "a marker that too few replicas are left to take",
    "a metadata quorum that has lost its voters",
    "a missed abort marker",
    "a partition whose ELR was cleared while it had no leader",
    "a quota that is spent on connections that were left",
    "a rebalance after a downgrade that nobody remembers",
    "a share partition that fetches below the log start",
    "a share partition that starts with removed records",
    "a share partition whose start the log start moved",
    "a stall that waits for an operator",
    "a topic that a deposed controller does not know",
    "a transaction that an excused stall leaves open",
    "a transaction that only an uncommitted record told",
    "a transaction whose marker the leader has missed",
    "an initialization that came late",
    "deleted inputs that are there again",
    "offsets that a failed transaction left over",
    "offsets that have expired",
    "partitions that a static leader has not found",
    "the epoch of a deleted topic",
    "what a group could not read in a stall",
    "what a static member had to hand over",
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
    scenario = found["scenario"]
    if case.beside:
        scenario = with_group_beside(scenario, case.beside)
    return parse(scenario, path.name), found["seed"]


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
