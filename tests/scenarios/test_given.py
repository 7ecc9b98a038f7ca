"""Drawn faults for a scenario that somebody gives: what stays, what is added, what is found."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.searching.given_plan import KINDS, with_faults

PAYMENTS = str(Path(__file__).parents[1] / "example_project" / "payments.toml")
"""A user's scenario without faults, in which a producer has acks=1."""


GIVEN = [
    name
    for name in (*library.names(), *library.scripts()[::9])
    if "clusters" not in library.source(name)[0]  # a search takes one cluster
]


@pytest.mark.parametrize("name", GIVEN)
def test_the_scenario_stays_and_faults_are_added(name: str) -> None:
    given = library.scenario(name)[0]
    for seed in range(3):
        drawn = with_faults(given, seed)
        assert (drawn.cluster, drawn.topics, drawn.workload) == (
            given.cluster, given.topics, given.workload
        )  # fmt: skip
        assert drawn.faults[: len(given.faults)] == given.faults
        assert drawn.operations[: len(given.operations)] == given.operations
        added = [*drawn.faults[len(given.faults) :], *drawn.operations[len(given.operations) :]]
        assert added
        assert {each.kind for each in added} <= set(KINDS)
        assert all(each.when or each.at.low < given.duration for each in added)  # type: ignore[union-attr]


def test_every_kind_is_drawn() -> None:
    names = ("acks-one-loses", "exactly-once", "zk-controller-gc-pause")
    given = [library.scenario(name)[0] for name in names]
    drawn: set[str] = set()
    for seed in range(150):
        for one in given:
            plan = with_faults(one, seed)
            drawn |= {each.kind for each in plan.faults[len(one.faults) :]}
            drawn |= {each.kind for each in plan.operations[len(one.operations) :]}
    assert sorted(drawn) == sorted(KINDS)


def test_a_seed_plans_the_same_whatever_the_producer_asks_for() -> None:
    one = library.scenario("acks-one-loses", ["workload.0.config.acks=1"])[0]
    all_ = library.scenario("acks-one-loses", ["workload.0.config.acks=all"])[0]
    assert [with_faults(one, seed).faults for seed in range(5)] == [
        with_faults(all_, seed).faults for seed in range(5)
    ]


def test_only_the_wanted_kinds_are_drawn() -> None:
    given = library.scenario("acks-one-loses")[0]
    for seed in range(10):
        drawn = with_faults(given, seed, ["gc-pause"])
        assert {each.kind for each in drawn.faults[len(given.faults) :]} == {"gc-pause"}
        assert not drawn.operations


@pytest.mark.slow
def test_acks_1_loses_records_and_acks_all_does_not(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["search", PAYMENTS, "--first", "24", "--seeds", "6"]
    assert invoke([*asked, "--json"]) == 10
    found = json.loads(capsys.readouterr().out)
    assert {tuple(each["anomalies"]) for each in found["failures"]} == {("lost-write",)}
    assert invoke([*asked, "--set", "workload.0.config.acks=all"]) == 0
    assert "6 pass" in capsys.readouterr().out


@pytest.mark.slow
def test_a_failure_is_kept_shrunk_and_runs_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    asked = [PAYMENTS, "--first", "24", "--seeds", "1"]
    assert invoke(["search", *asked, "--out", str(tmp_path / "found"), "--budget", "3"]) == 10
    kept = next((tmp_path / "found").glob("*/drawn.toml"))
    assert (kept.parent / "report.html").exists()
    place = str(tmp_path / "again")
    assert invoke(["shrink", PAYMENTS, "--from-search", "24", "--budget", "0", "--out", place]) == 0
    assert (tmp_path / "again" / "drawn.toml").read_text() == kept.read_text()
    assert invoke(["run", str(kept), "--seed", "24"]) == 10
    assert "lost-write" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["search", "--only", "crash"], "--only needs SCENARIO"),
        (["search", "acks-one-loses", "--only", "pause"], "--only pause: allowed are gc-pause,"),
        (["search", "acks-one-loses", "--mode", "kraft"], "--mode: a SCENARIO sets its mode"),
        (["shrink", "acks-one-loses", "--only", "crash"], "--only and --about need --from-search"),
    ],
)
def test_what_does_not_go_together_is_refused(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke(arguments) == 2
    assert message in capsys.readouterr().err
