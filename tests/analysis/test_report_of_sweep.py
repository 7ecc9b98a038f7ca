"""The report of a sweep or comparison: what it measures is a share of runs there, no failure."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from kafkasim.analysis.report import sweeps
from kafkasim.analysis.report.page import Part, render
from kafkasim.analysis.sweeps import tables
from kafkasim.analysis.verdict import RunVerdict, Verdicts
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.commands.spark.reports import replay_command
from kafkasim.scenarios.language import library

ABOUT = {"question": "What does acks cost?", "answer": "Little.", "axes": ["acks"],
         "measures": ["latency-p50-ms"], "ended": "4 runs of each of 2 points"}  # fmt: skip


def estimated(point: int, acks: str, measure: str, value: float, **more: Any) -> dict[str, Any]:
    return {
        "point": point, "acks": acks, "measure": measure, "unit": "", "summary": "median",
        "runs": 4, "value": value, "low": value / 2, "high": value * 2, "least": 0.0, "most": value,
    } | more  # fmt: skip


ROWS = [
    estimated(0, "1", "latency-p50-ms", 5.0),
    estimated(0, "1", "lost-write", 0.5),
    estimated(0, "1", "duplicate", 0.0),
    estimated(1, "all", "latency-p50-ms", 1200.0),
    estimated(1, "all", "lost-write", 0.0),
    estimated(1, "all", "duplicate", 0.0),
    estimated(1, "all", "controllerless-s", math.nan),
]


def run(name: str, verdict: str, anomalies: list[str], expected: list[str]) -> RunVerdict:
    seed = int(name.rpartition("-")[2])
    return RunVerdict(name, "s", seed, verdict, "", anomalies, expected, "d" * 32)


RUNS = [
    run("s[acks=1]/seed-000000", "expected", [], ["lost-write"]),
    run("s[acks=1]/seed-000001", "fail", ["lost-write"], []),
    run("s[acks=1]/seed-000002", "pass", [], []),
    run("s[acks=all]/seed-000000", "fail", ["missing:truncated"], []),
]


def cells(part: Part, title: str) -> list[list[str]]:
    return [list(row) for one in part.tables if one.title == title for row in one.rows]


def test_a_sweep_has_its_estimates_and_the_share_of_runs_with_anomalies(tmp_path: Path) -> None:
    tables.write(ROWS, tmp_path / "sweep", ABOUT)
    [part] = sweeps.measured_parts(tmp_path)
    assert (part.title, part.lead) == ("What does acks cost?", "The scenario's answer: Little.")
    assert cells(part, "Estimates") == [
        ["1", "5 (2.5 to 10)"], ["all", "1,200 (600 to 2,400)"],
    ]  # fmt: skip
    assert cells(part, "Runs that show an anomaly") == [
        ["1", "50 % (25 % to 100 %)"], ["all", "0 %"],
    ]  # fmt: skip
    every = cells(part, "All estimates that are not zero everywhere")
    assert [row[2] for row in every] == ["latency-p50-ms", "lost-write"] * 2


def test_what_is_measured_is_no_failure() -> None:
    verdicts = Verdicts(RUNS, [], [])
    assert [sweeps.verdict_of(one) for one in RUNS] == [""] * 4
    part = sweeps.runs_part(verdicts)
    assert (part.lead, part.verdict) == ("4 runs: 2 configurations, 3 seeds.", "")
    assert [row[1] for row in cells(part, "Runs")] == [
        "lost-write", "lost-write", "nothing", "nothing",
    ]  # fmt: skip
    assert "fail" not in render("", "", [part]).partition("<main")[2]
    assert sweeps.interesting(verdicts, 3) == ["s[acks=1]/seed-000000", "s[acks=1]/seed-000002"]
    assert sweeps.shares(verdicts, RUNS[1]) == (
        "2 of 3 runs with this configuration show lost-write: 66.7 % (20.8 % to 93.9 %)."
    )
    assert sweeps.shares(verdicts, RUNS[3]) == ""


def test_what_is_not_measured_fails_in_a_sweep_too() -> None:
    torn = run("s[acks=all]/seed-000001", "fail", ["MATCH", "lost-write"], [])
    crashed = run("s[acks=all]/seed-000002", "crash", [], [])
    part = sweeps.runs_part(Verdicts([*RUNS, torn, crashed], [], []))
    assert (part.verdict, part.lead.partition(". ")[2]) == (
        "fail", "2 runs failed in a way that is not measured.",
    )  # fmt: skip
    assert cells(part, "Runs")[0][:2] == [torn.run, "MATCH, lost-write"]
    assert sweeps.interesting(Verdicts([*RUNS, torn, crashed], [], []), 1) == [torn.run]


def test_results_without_the_runs_have_a_report(tmp_path: Path) -> None:
    one = {"measure": "lost-write", "unit": "", "pairs": 4, "a": 1.0, "a_low": 0.5, "a_high": 1.0,
           "b": 0.0, "b_low": 0.0, "b_high": 0.5, "difference": -1.0, "difference_low": -1.0,
           "difference_high": -1.0, "pairs_lower": 4, "pairs_higher": 0,
           "p_value": 0.125}  # fmt: skip
    tables.write([one], tmp_path / "compare", {"a": "s", "b": "s acks=all", "pairs": 4})
    assert invoke(["report", str(tmp_path)]) == 0
    page = (tmp_path / "report.html").read_text()
    assert "<dt>B</dt><dd>s acks=all</dd>" in page
    assert '<td class="number">100 % (50 % to 100 %)</td>' in page
    assert invoke(["report", str(tmp_path), "--run", "0"]) == 2


def test_the_replay_of_a_run_is_a_command_that_finds_its_scenario() -> None:
    settings = ["duration=20s"]
    spec = library.scenario("split-brain", settings)[0].model_dump(mode="json", by_alias=True)
    asked = {"seed": 3, "spec": spec, "settings": settings, "given": [], "twin": False,
             "place": "out/fleet", "run": "split-brain/seed-000003"}  # fmt: skip
    ran = "kafkasim run split-brain --seed 3 --set duration=20s"
    assert replay_command(asked, "split-brain") == ran
    of_file = "kafkasim replay out/fleet --run split-brain/seed-000003"
    assert replay_command(asked | {"settings": []}, "split-brain") == of_file
    assert replay_command(asked, "my-own") == of_file
