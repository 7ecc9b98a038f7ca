"""What the strategies draw is valid, and a drawn cluster keeps its promises."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import kafkasim
from kafkasim import strategies
from kafkasim.scenarios.language.spec import parse
from kafkasim.sim.faults.kinds import KINDS

RACKS: dict[str, Any] = {
    "name": "racks", "claim": "x", "duration": "5s",
    "cluster": {"brokers": 3, "racks": ["a", "b"]},
    "topics": [{"name": "orders"}],
    "workload": [{"kind": "producer"}],
}  # fmt: skip


@settings(max_examples=100)
@given(strategies.scenarios())
def test_every_drawn_scenario_is_valid(data: dict[str, Any]) -> None:
    assert parse(data, "drawn").name == "drawn"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "bit-rot"])
@settings(max_examples=10)
@given(data=st.data())
def test_every_kind_of_fault_can_be_drawn(kind: str, data: st.DataObject) -> None:
    """The parameters follow from the declaration of the kind; bit-rot names a file of a run."""
    table = data.draw(strategies.faults(RACKS, kinds=(kind,)))
    assert parse(RACKS | {"faults": [table]}, "drawn").faults[0].guarded


@pytest.mark.slow
@settings(max_examples=6)
@given(strategies.scenarios(most_faults=3))
def test_a_drawn_cluster_keeps_its_promises(data: dict[str, Any]) -> None:
    outcome = kafkasim.run(data)
    assert outcome.verdict != "fail", outcome.explain()
