"""A minimum that was low once permits no later advance of the high watermark."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run

BUGS = Path(__file__).parent.parent / "bugs"


@pytest.mark.slow
@pytest.mark.parametrize("name", ["low-minimum-once", "zk-low-minimum-once"])
def test_a_minimum_counts_until_it_is_replaced(name: str) -> None:
    scenario, _ = library.scenario(str(BUGS / f"{name}.toml"))
    assert run(scenario, 1).verdict == "pass"
    assert run(scenario, 1, variants=["B18-hw-under-min-isr"]).anomalies == ["MINISR"]
