"""The search: what counts as a find, what counts as a bug of ours, and what the command prints."""

from __future__ import annotations

import json

import pytest

from kafkasim.analysis.judging.finding import Finding as Judged
from kafkasim.analysis.judging.verdict import in_order
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.commands.searching import _without_trace
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.report import NOT_KEPT
from kafkasim.scenarios.searching import search as searching
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.search import (
    SWARM,
    Finding,
    Given,
    Source,
    Tally,
    search,
)


def _examine(failing: dict[tuple[str, ...], list[int]]):
    """Return a stand-in for a run: which seeds fail, by the variants in force."""

    def examine(seed: int, variants: tuple[str, ...] = (), _: Source = SWARM) -> Finding:
        if seed in failing.get(tuple(variants), []):
            return Finding(seed, "fail", ("ACKED",), 1.0, f"seed {seed}")
        return Finding(seed, "pass", (), 1.0)

    return examine


def test_a_seed_that_fails_with_and_without_the_variant_is_our_bug(monkeypatch) -> None:
    monkeypatch.setattr(searching, "examine", _examine({("V",): [2, 3], (): [2]}))
    found = list(search(range(1, 4), ["V"]))
    assert [f.verdict for f in found] == ["pass", "crash", "fail"]
    assert "a bug of ours" in found[1].report


def test_a_users_scenario_that_fails_without_the_variant_too_is_no_find(monkeypatch) -> None:
    monkeypatch.setattr(searching, "examine", _examine({("V",): [2, 3], (): [2]}))
    mine = Given(parse(draw(2), "mine"), ("mine.toml",))
    found = list(search(range(1, 4), ["V"], source=mine))
    assert [(f.verdict, f.failed) for f in found] == [
        ("pass", False), ("unmodified", False), ("fail", True)
    ]  # fmt: skip


def test_a_users_scenario_is_run_again_and_shrunk_as_it_was_asked_for() -> None:
    asked = ("my search --first.toml", "--set", "workload.0.config.acks=1", "--only", "crash")
    mine = Given(parse(draw(2), "mine"), asked, ("crash",))
    named = "'my search --first.toml' --set workload.0.config.acks=1 --only crash"
    assert mine.command(7, ["V"]) == (f"kafkasim search {named} --first 7 --seeds 1 --variant V")
    assert mine.shrink(7) == f"kafkasim shrink {named} --from-search 7"


def test_a_tally_counts_seeds_time_and_failures() -> None:
    tally = Tally()
    for finding in (Finding(1, "pass", (), 2.0), Finding(2, "fail", ("META",), 3.0)):
        tally.ran.append(finding)
    assert (tally.seeds, tally.sim_seconds, tally.verdicts) == (2, 5.0, {"pass": 1, "fail": 1})
    assert [finding.seed for finding in tally.findings] == [2]


def test_invariants_are_told_in_the_order_of_their_first_violation() -> None:
    def broken(name: str, seq: int, expected: str = "") -> Judged:
        return Judged(name, "t", 0, "", seq=seq, expected_by=expected)

    seen = [broken("lost-write", 1), broken("duplicate", 2, "permitted"), broken("ACKED", 9),
            broken("HWMONO", 7, "unclean"), broken("ISRDATA", 8)]  # fmt: skip
    assert list(in_order(seen).items()) == [
        ("HWMONO", False), ("ISRDATA", True), ("ACKED", True), ("lost-write", True),
        ("duplicate", False),
    ]  # fmt: skip


@pytest.mark.slow
def test_the_command_finds_a_broken_rule(capsys: pytest.CaptureFixture[str]) -> None:
    variant = "M01-hw-ignores-followers"
    code = invoke(["search", "--variant", variant, "--seeds", "4", "--json"])
    out = json.loads(capsys.readouterr().out)
    assert code == 0
    assert out["found"]["seed"] <= 4
    assert {"ISRDATA", "MINISR"} & set(out["found"]["anomalies"])


@pytest.mark.parametrize("seed", range(60))
def test_every_drawn_scenario_is_valid(seed: int) -> None:
    data = draw(seed)
    longest_s = 90 if "offsets.retention.minutes" in data["cluster"]["config"] else 60
    assert parse(data, data["name"]).duration <= longest_s * 1_000_000


def test_a_crash_under_a_variant_is_a_find_and_one_without_it_is_not() -> None:
    assert Finding(1, "crash", ("crash",)).is_of_variant
    assert Finding(1, "fail", ("ACKED",)).is_of_variant
    assert not Finding(1, "crash", ("unmodified",)).is_of_variant
    assert not Finding(1, "pass").is_of_variant


def test_what_a_search_keeps_has_a_trace_of_its_own() -> None:
    screen = f"safety failure: ACKED\n  replay: x\n{NOT_KEPT}"
    assert _without_trace(screen) == "safety failure: ACKED\n  replay: x"
