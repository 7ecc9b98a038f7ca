"""No excuse hides a variant: where one is in force, a broken rule still fails.

For each excuse of ``scenarios/judging/README.md`` a stored scenario runs twice with one seed. By
the rules of Kafka the excuse is in force and nothing fails. With the variant the excuse is in force
too, or the variant makes untrue what it rests on, and the run fails by what the variant adds.
The run by Kafka's rules of a seed that a search found is also held to what the seed pins.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path

import pytest

from kafkasim.scenarios.judging.verdict import Result
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import run
from tests.bugs.test_regressions import hold
from tests.scenarios.excuse_beside import with_group_beside
from tests.scenarios.excuse_case import Case
from tests.scenarios.excuse_cases import CASES
from tests.scenarios.excuse_ears import EARS, OF_RESULTS, listening

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
README = Path(library.__file__).parents[1] / "judging" / "README.md"
HEAD = "| excuse | what it covers |"


def _table() -> dict[str, str]:
    """Return the last column of the README's table by excuse."""
    lines = README.read_text(encoding="utf-8").partition(HEAD)[2].split("\n\n")[0].splitlines()
    rows = [re.split(r"\s*\|\s*", line.strip("| ")) for line in lines[2:]]
    return {row[0]: row[-1] for row in rows}


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


def _judged(case: Case, variants: Sequence[str]) -> tuple[Result, bool]:
    """Return the result of a run, and whether the excuse was in force in it."""
    scenario, seed = _scenario(case)
    with listening() as heard:
        result = run(scenario, seed, variants=variants)
    return result, case.excuse in heard.in_force(result)


@pytest.mark.slow
@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, marks=[pytest.mark.soak] if case.excuse in LONG else [], id=case.excuse)
        for case in CASES
    ],
)
def test_a_variant_fails_under_the_excuse(case: Case) -> None:
    plain, spoke = _judged(case, ())
    assert (plain.verdict, spoke) == ("expected" if plain.expected else "pass", True)
    if case.is_seed_as_found:
        hold(plain, _seed(case))
    with_it, spoke = _judged(case, [case.variant])
    assert (with_it.verdict, spoke) == ("fail", case.holds)
    assert case.fails in with_it.anomalies
    assert case.fails not in with_it.expected
    assert case.fails not in plain.anomalies or case.fails in plain.expected


def test_every_excuse_has_a_variant_that_the_table_names() -> None:
    table = _table()
    assert [name for name in sorted(LONG) if name not in table] == []
    assert list(table) == [name for name in table if name in EARS or name in OF_RESULTS]
    assert sorted(table) == sorted(case.excuse for case in CASES)
    unnamed = [case for case in CASES if case.variant.split("-")[0] not in table[case.excuse]]
    assert not unnamed
