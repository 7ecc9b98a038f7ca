"""Holes: what a known defect of Kafka covers, and what it does not."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.judging.holes import HOLES, EnteredHoles, Place
from kafkasim.model import facts
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.trace.recording import Trace

MADE = facts.TopicCreated(1, "id", "orders", 2, 3, 2)
SEEDS = Path(__file__).parents[1] / "bugs/seeds"
MODEL = Path(facts.__file__).parents[1]
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


def test_a_static_members_return_counts_until_the_next_generation() -> None:
    def after(state: str) -> str:
        trace = Trace(None)
        holes = EnteredHoles(trace)
        trace.record(1, "broker-1", facts.HoleEntered("static-member-returned", group="g"))
        trace.record(2, "broker-1", facts.GroupState("g", state, 2, (), "range", "r"))
        return holes.covering("no-progress", Place(group="g"))

    assert [after("Stable"), after("CompletingRebalance")] == ["static-member-returned", ""]


def test_every_hole_that_the_model_announces_has_a_row() -> None:
    named = re.compile(r'(?:HoleEntered|_tell_hole|_tell)\("([a-z-]+)"')
    sources = [path.read_text(encoding="utf-8") for path in MODEL.rglob("*.py")]
    told = {name for source in sources for name in named.findall(source)}
    assert told
    assert told <= {hole.name for hole in HOLES if hole.fact is facts.HoleEntered}


@pytest.mark.slow
def test_without_the_hole_the_same_seed_makes_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rule that closes ``cleared-elr``: a new minimum leaves the ELR as it is."""
    stored = json.loads((SEEDS / "elr-cleared-while-nobody-led.json").read_text(encoding="utf-8"))
    assert stored["anomalies"] == ["no-progress"]
    assert next(hole.closed_by for hole in HOLES if hole.name == "cleared-elr") == (
        "ControllerRules.clears_elr"
    )
    monkeypatch.setattr(ControllerRules, "clears_elr", lambda _self: False)
    result = run(parse(stored["scenario"], "a seed"), stored["seed"])
    assert (result.verdict, result.missing) == ("pass", [])
