"""Every historical bug is found by its script: its invariant breaks first, and only with it."""

from __future__ import annotations

import json

import pytest

from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.analysis.judging.verdict import Result, in_order, is_unmet
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.variants.compose import compose, only_mode
from kafkasim.scenarios.variants.page import page
from kafkasim.scenarios.variants.registry import BUGS, VARIANTS
from kafkasim.scenarios.variants.variant import Variant, VariantError


def fired(result: Result) -> list[str]:
    """Return what a run broke, in order; LIVE is what did not converge or was not observed.

    An invariant counts although a loss covers it: a variant may be about just that loss.
    """
    names = in_order(result.findings)
    broken = [name for name, failed in names.items()
              if (failed or name in INVARIANTS) and not is_unmet(name)]  # fmt: skip
    live = any(failed and is_unmet(name) for name, failed in names.items())
    return [*broken, *(["LIVE"] if live else [])]


@pytest.mark.slow
@pytest.mark.parametrize("bug", BUGS, ids=lambda bug: bug.id)
def test_a_bug_is_found_by_its_script(bug: Variant) -> None:
    """What its script breaks anyway is a legal loss, which excuses nothing that the bug breaks."""
    scenario, _ = library.scenario(bug.scenario)
    without = run(scenario, 1)
    assert without.verdict in ("pass", "expected"), without.anomalies
    legal = fired(without)
    broken = run(scenario, 1, variants=[bug.id])
    found = [name for name in fired(broken) if name not in legal]
    assert (broken.verdict, found[:1]) == ("fail", [bug.breaks])


def test_every_bug_has_its_script_and_every_script_its_bug() -> None:
    assert sorted(bug.scenario for bug in BUGS) == library.scripts()
    for name in library.scripts():
        scenario, _ = library.scenario(name)
        assert scenario.name == name
        assert len(library.path(name).read_text(encoding="utf-8").splitlines()) < 200


def test_the_page_of_the_bugs_is_up_to_date() -> None:
    written = (library.BUGS / "README.md").read_text(encoding="utf-8")
    assert written == page(BUGS) + "\n"


def _listed(capsys: pytest.CaptureFixture[str], *arguments: str) -> list[dict[str, str]]:
    assert invoke(["list", *arguments, "--json"]) == 0
    listed: list[dict[str, str]] = json.loads(capsys.readouterr().out)
    return listed


def test_variants_are_listed_apart_from_the_scenarios(capsys: pytest.CaptureFixture[str]) -> None:
    variants = _listed(capsys, "--variants")
    assert [variant["id"] for variant in variants] == list(VARIANTS)
    assert list(variants[0]) == ["id", "source", "breaks", "scenario", "claim"]
    scenarios = _listed(capsys)
    assert [scenario["name"] for scenario in scenarios] == library.names()


def test_two_variants_compose() -> None:
    rules = compose(["B39-raft-no-check-quorum", "B43-no-pre-vote"])
    assert (rules.raft.check_quorum_us(2_000_000), rules.raft.pre_vote()) == (None, False)


def test_two_variants_that_override_one_rule_are_refused() -> None:
    with pytest.raises(VariantError, match=r"both override replication\.accepts_fetch_reply"):
        compose(["M04-no-epoch-fencing", "B82-stale-fetch-reply-epoch"])


def test_one_rule_under_two_names_composes() -> None:
    both = compose(["B01-truncate-to-hw", "B02-truncate-to-hw-diverges"])
    one = VARIANTS["B01-truncate-to-hw"].overridden()
    assert one
    for (part, name), method in one.items():
        assert getattr(type(getattr(both, part)), name) is method


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(VariantError, match="no variant 'B00'"):
        compose(["B00"])
    with pytest.raises(VariantError, match="did you mean B06-isr-expand-at-hw"):
        compose(["B06"])
    with pytest.raises(VariantError, match="did you mean B06-isr-expand-at-hw"):
        compose(["B6"])
    with pytest.raises(VariantError, match=r"did you mean B06-isr-expand-at-hw \(KAFKA-7128\)"):
        compose(["KAFKA-7128"])


@pytest.mark.parametrize("command", [["run", "B06-isr-expand-at-hw"], ["search"]])
def test_an_unknown_variant_is_a_usage_error_of_one_line(
    command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert invoke([*command, "--variant", "B00"]) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)
    assert "no variant 'B00'" in err


@pytest.mark.slow
def test_two_variants_compose_on_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    both = ["--variant", "B44-unfence-needs-log-end", "--variant", "B43-no-pre-vote"]
    code = invoke(["run", "B44-unfence-needs-log-end", "--seed", "1", *both, "--json"])
    result = json.loads(capsys.readouterr().out)
    assert code == 10
    assert result["variants"] == [both[1], both[3]]


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["B33-zk-write-without-epoch-check"], "zookeeper"),
        (["B43-no-pre-vote"], "kraft"),
        (["B06-isr-expand-at-hw"], None),  # both modes have it
        (["B01-truncate-to-hw"], None),  # the part is in both, lookup mode with ZooKeeper only
        (["B43-no-pre-vote", "B01-truncate-to-hw"], "kraft"),
        (["B43-no-pre-vote", "B33-zk-write-without-epoch-check"], None),
    ],
)
def test_a_variant_is_sought_in_the_mode_it_is_about(ids: list[str], expected: str | None) -> None:
    assert only_mode(ids) == expected


def test_an_observation_that_comes_after_the_heal_is_not_in_time() -> None:
    data, place = library.source("B44-unfence-needs-log-end")
    data["expect"] = {"in-time": ["unfenced"]}
    assert run(parse(data, place), 1).anomalies == []
    data["operations"][1]["at"] = "20s"  # never: what is down is started by the heal
    assert run(parse(data, place), 1).anomalies == ["missing:unfenced"]
