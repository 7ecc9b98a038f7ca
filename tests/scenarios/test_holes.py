"""Holes: what a known defect of Kafka covers, and what it does not."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.holes import HOLES, EnteredHoles, Place
from kafkasim.model import facts
from kafkasim.sim.trace.recording import Trace

MADE = facts.TopicCreated(1, "id", "orders", 2, 3, 2)
SKIPPED = facts.MarkerSkipped("pay", "orders", 1, 7, 0, 0)


@pytest.mark.parametrize(
    ("place", "covered"),
    [
        (Place("id", 1), "skipped-marker"),
        (Place("id", 1, producer_id=7), "skipped-marker"),
        (Place(transactional_id="pay"), "skipped-marker"),
        (Place("id", 0), ""),
        (Place("id", 1, producer_id=8), ""),
        (Place(group="billing"), ""),
        (Place(), ""),
    ],
)
def test_a_hole_covers_findings_at_its_place_since_it_was_entered(
    place: Place, covered: str
) -> None:
    trace = Trace(None)
    holes = EnteredHoles(trace)
    trace.record(1, "world", MADE)
    trace.record(2, "broker-1", SKIPPED)
    found = [holes.covering("no-progress", place, seq) for seq in (-1, 1, 0)]
    assert found == [covered, covered, ""]


@pytest.mark.parametrize(
    ("fact", "covered"),
    [
        (facts.StateChangeFailed("id", 0, "NODEEXISTS"), "lost-zookeeper-answer"),
        (facts.StateChangeFailed("id", 0, "SESSIONEXPIRED"), ""),
        (facts.HoleEntered("no such row", "id", 0), ""),
    ],
)
def test_a_hole_asks_for_values_of_its_fact(fact: Any, covered: str) -> None:
    trace = Trace(None)
    holes = EnteredHoles(trace)
    trace.record(1, "broker-1", fact)
    assert holes.covering("no-progress", Place("id", 0)) == covered


def test_each_hole_has_a_name_of_its_own() -> None:
    names = [hole.name for hole in HOLES]
    assert names == list(dict.fromkeys(names))
