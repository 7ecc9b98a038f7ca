"""When a variant decides otherwise than Kafka: who tells it, and the faults that wait for it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import kafkasim
from kafkasim.model import facts
from kafkasim.model.raft.rules import RaftRules
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running import node_settings
from kafkasim.scenarios.running.runner import ScenarioRun
from kafkasim.scenarios.searching import search
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.variants.compose import watched
from kafkasim.scenarios.variants.rules import Rules

BUG = "B06-isr-expand-at-hw"
RULE = "replication.reaches_epoch_start"
ACTS = 5_000_010
"""A seed in which the bug acts while faults may begin, and does no harm."""


def drawn() -> dict[str, Any]:
    """Return what that seed drew before the draw had a budget."""
    text = Path(__file__).with_name("acts.json").read_text(encoding="utf-8")
    data: dict[str, Any] = json.loads(text)
    return data


def told(scenario: Scenario, seed: int, variants: Sequence[str]) -> list[tuple[int, str, Any]]:
    """Return when and where rules acted and faults began, up to the first fault after an act."""
    found: list[tuple[int, str, Any]] = []
    run = ScenarioRun(scenario, seed, None, list(variants))

    def on_fact(_seq: int, t_us: int, node: str, fact: Any) -> None:
        acted = any(isinstance(each, facts.RuleActed) for _, _, each in found)
        if not (acted and isinstance(found[-1][2], facts.FaultStarted)):
            found.append((t_us, node, fact))

    for kind in (facts.RuleActed, facts.FaultStarted):
        run.trace.subscribe(kind, on_fact)
    run.execute()
    return found


class NoPreVote(RaftRules):
    """Candidates ask for votes at once."""

    def pre_vote(self) -> bool:
        return False


def test_a_rule_tells_until_somebody_is_content() -> None:
    heard: list[str] = []

    def act(rule: str) -> bool:
        heard.append(rule)
        return len(heard) == 2

    rules = watched(Rules(raft=NoPreVote()), Rules(), [("raft", "pre_vote")], act)
    assert [rules.raft.pre_vote() for _ in range(4)] == [False] * 4
    assert heard == ["raft.pre_vote"] * 2
    others = watched(Rules(), Rules(raft=NoPreVote()), [("raft", "pre_vote")], act)
    assert others.raft.pre_vote()
    assert len(heard) == 3


@pytest.mark.parametrize(
    "variant", [BUG, "B41-raft-leader-same-epoch", "B71-offsets-expire-during-rebalance"]
)
def test_asking_the_replaced_rule_too_changes_nothing(
    variant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def rows() -> list[tuple[int, str, Any]]:
        run = ScenarioRun(library.scenario(variant)[0], 0, None, [variant])
        found: list[tuple[int, str, Any]] = []
        for kind in (facts.HighWatermark, facts.PartitionChanged, facts.GroupState, facts.RaftRole):
            run.trace.subscribe(kind, lambda _s, t, node, fact: found.append((t, node, fact)))
        run.execute()
        return found

    asked = rows()
    monkeypatch.setattr(node_settings, "watched", lambda rules, *_: rules)
    assert asked == rows()
    assert asked


def test_the_story_has_the_moment_and_a_run_without_it_a_note(
    capsys: pytest.CaptureFixture[str],
) -> None:
    story = "\n".join(kafkasim.run(BUG, variants=[BUG]).story())
    assert f"the variant first differs from Kafka on broker-2: {RULE}" in story
    assert invoke(["run", "az-loss", "--variant", BUG]) == 0
    assert "this run says nothing about the variant" in capsys.readouterr().out


def test_faults_wait_for_it_in_a_run_without_the_variant_too() -> None:
    data = drawn()
    crash = {"kind": "crash", "node": "@node", "when": {"fact": "RuleActed"}, "for": "1s"}
    data["faults"] = [*data["faults"], {**crash, "at": "1ms"}]
    data["cluster"]["watched"] = [BUG]
    scenario = parse(data, data["name"])
    with_it, without = told(scenario, ACTS, [BUG]), told(scenario, ACTS, [])
    assert with_it == without
    (acted_us, node, act), (fault_us, _, fault) = with_it[-2:]
    assert act == facts.RuleActed(RULE)
    assert (fault_us - acted_us, fault.fault, fault.target) == (1000, "crash", node)
    assert RULE not in str(told(parse(drawn(), "drawn"), ACTS, []))


@pytest.mark.slow
def test_a_search_counts_the_seeds_in_which_a_variant_acted(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "draw", lambda seed: drawn() if seed == ACTS else draw(seed))
    words = ["search", "--variant", BUG, "--first", str(ACTS - 1), "--seeds", "3", "--jobs", "1"]
    assert invoke([*words, "--json"]) == 10
    found = json.loads(capsys.readouterr().out)
    assert (found["acted"], found["found"]) == (1, None)
    assert invoke(words) == 10
    assert "decided otherwise than Kafka: 1" in capsys.readouterr().out


def test_a_variant_that_nobody_knows_is_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = 'name = "mine"\nclaim = "x"\nduration = "2s"\n[cluster]\nwatched = ["B57"]\n'
    (tmp_path / "mine.toml").write_text(text)
    assert invoke(["run", str(tmp_path / "mine.toml")]) == 2
    assert "no variant 'B57'; did you mean B57-" in capsys.readouterr().err
