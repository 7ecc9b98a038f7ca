"""What waits for ever can be a scenario's claim: outages without an end, and ``no-progress``."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run

NO_COORDINATOR = str(Path(__file__).parent.parent / "cases/reports/24-no-coordinator.toml")
STUCK = [
    'expect={ must-see = ["no-progress"], permits = ["no-progress"], within = "10s" }',
    'duration="10s"',
]
FOR_EVER = 'faults=[{ kind = "crash", node = "broker-1", at = "5s", for = "ever" }]'
ENOUGH = 'cluster.config={ "offsets.topic.replication.factor" = 1 }'


def verdict(*settings: str) -> tuple[str, list[str]]:
    scenario, _ = library.scenario(NO_COORDINATOR, [*STUCK, *settings])
    result = run(scenario, 1)
    return result.verdict, result.anomalies


@pytest.mark.slow
@pytest.mark.parametrize(
    ("settings", "verdicts"),
    [
        ((), ("expected", ["no-progress"])),
        ((ENOUGH,), ("fail", ["missing:no-progress"])),
        ((ENOUGH, FOR_EVER), ("expected", ["no-progress"])),
        ((ENOUGH, FOR_EVER.replace(', for = "ever"', "")), ("fail", ["missing:no-progress"])),
    ],
)
def test_a_scenario_may_claim_that_nothing_goes_on(
    settings: tuple[str, ...], verdicts: tuple[str, list[str]]
) -> None:
    assert verdict(*settings) == verdicts


NEMESIS = FOR_EVER.replace("crash", "nemesis")


@pytest.mark.parametrize(
    ("setting", "problem"),
    [('duration="ever"', "duration"), (NEMESIS, "faults.0.for: a nemesis ends")],
)
def test_only_a_single_fault_lasts_for_ever(setting: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        library.scenario(NO_COORDINATOR, [setting])
