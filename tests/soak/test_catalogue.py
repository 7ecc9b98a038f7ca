"""Every scenario of the catalogue keeps its claim, and its twin fails as it says.

Long; ``make soak`` runs it. KAFKASIM_SOAK_SEEDS_EACH says how many seeds a scenario gets (2).
"""

from __future__ import annotations

import os

import pytest

from kafkasim.scenarios.commands.runs import fails_as_named, run_request
from kafkasim.scenarios.language import library

EACH = int(os.environ.get("KAFKASIM_SOAK_SEEDS_EACH", "2"))


@pytest.mark.soak
@pytest.mark.parametrize("name", library.names())
def test_a_scenario_keeps_its_claim(name):
    asked = run_request(name, None, None)
    results = [asked.run(seed, None) for seed in range(1, EACH + 1)]
    assert [result.summary() for result in results if result.verdict == "fail"] == []


@pytest.mark.soak
@pytest.mark.parametrize("name", library.names())
def test_a_twin_fails_as_its_scenario_says(name):
    asked = run_request(name, None, None, twin=True)
    assert asked.scenario.twin is not None
    seeds = range(1, asked.scenario.twin.seeds + 1)
    tried = (asked.run(seed, None) for seed in seeds)
    assert any(fails_as_named(asked.scenario, result) for result in tried), (
        f"none of {len(seeds)} seeds failed with {asked.scenario.twin.fails}"
    )
