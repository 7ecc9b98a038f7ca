"""Mutated input gives a verdict or one line, never an exception: 2 000 seeded mutants.

``tests/soak/test_mutants.py`` tries 100 000. The mutants that found a defect stay: those of
scenarios in ``tests/scenarios/test_bad_input.py``, those of manifests in ``REGRESSIONS``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.fuzz.harness import answer, properties_mutant, scenario_mutant, short_runs, stored_run

SCENARIOS, PROPERTIES, STORED = 1200, 400, 400
RUN_EVERY = 8
CHUNKS = 4

MINIMAL = {"name": "x", "claim": "c", "duration": "1s"}

FINDING = {
    "name": "offset-regression", "topic_id": "", "partition": 0, "count": 1, "detail": "",
}  # fmt: skip

REGRESSIONS: dict[str, tuple[str, Any]] = {
    "a list for the scenario's nodes": ("spec", {"cluster": {"nodes": []}}),
    "topics that are no tables": ("spec", {"topics": "x"}),
    "a topic without a name": ("spec", {"topics": [{}]}),
    "controllers that are no number": ("spec", {"cluster": {"controllers": "3"}}),
    "standby controllers as a text": (
        "spec",
        MINIMAL | {"cluster": {"standby-controllers": "4.0"}},
    ),
    "a scenario that is no table": ("spec", True),
    "ready at a list": ("ready_us", []),
    "ready at a text": ("ready_us", " "),
    "ready at a truth": ("ready_us", True),
    "a seed below zero": ("seed", -1),
    "variants that are no names": ("variants", [3]),
    "a digest that is no text": ("digest", None),
    "findings of delivery that are no list": ("delivery", 3),
    "a finding that is a text": ("violations", ["x"]),
    "a finding without a name": ("delivery", [{"detail": "", "seq": 1}]),
    "a finding of a row that is not there": ("delivery", [FINDING | {"seq": 10**6}]),
    "a finding of a row of another kind": ("delivery", [FINDING | {"seq": 0}]),
    "a finding of no row": ("delivery", [FINDING | {"seq": 10**30}]),
    "anomalies that are no names": ("anomalies", [{}]),
    "an observation without a time": ("observations", {"fenced": None}),
    "observations that are no table": ("observations", []),
    "more rows than the trace has": ("rows", 10**6),
}
"""Keys of a manifest and the values with which kafkasim once failed."""

COMMANDS = (["describe", "topics"], ["describe", "quorum"], ["replay"], ["explain"])


@pytest.mark.slow
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_a_mutated_scenario_is_judged_or_refused(chunk: int, tmp_path: Path) -> None:
    with short_runs(RUN_EVERY) as runner:
        tried = {
            number: scenario_mutant(number, tmp_path) for number in range(chunk, SCENARIOS, CHUNKS)
        }
    assert {number: wrong for number, wrong in tried.items() if wrong} == {}
    assert runner.ran > 0


@pytest.mark.slow
def test_a_mutated_properties_file_counts_or_is_refused(tmp_path: Path) -> None:
    with short_runs(40) as runner:
        tried = {number: properties_mutant(number, tmp_path) for number in range(PROPERTIES)}
    assert {number: wrong for number, wrong in tried.items() if wrong} == {}
    assert 0 < runner.accepted < PROPERTIES


@pytest.mark.slow
def test_a_mutated_stored_run_is_read_or_refused(tmp_path: Path) -> None:
    with stored_run(tmp_path) as stored:
        tried = {number: stored.try_mutant(number) for number in range(STORED)}
    assert {number: wrong for number, wrong in tried.items() if wrong} == {}


def test_a_manifest_that_once_made_kafkasim_fail_is_refused(tmp_path: Path) -> None:
    with stored_run(tmp_path) as stored:
        found = {}
        for name, (key, value) in REGRESSIONS.items():
            manifest = json.dumps({**stored.manifest, key: value}).encode()
            for command in COMMANDS:
                if wrong := stored.answer(manifest, stored.trace, command):
                    found[name, *command] = wrong
    assert found == {}


def test_the_harness_sees_an_exception_and_a_message_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text('name = "x"\nclaim = "c"\nduration = "1s"\n')
    with short_runs(1) as runner:
        runner.every = 0  # the stand-in divides by it
        assert "ZeroDivisionError" in answer(["run", str(path)], path)
    assert "not one line that names" in answer(["run", "no-such-scenario"], path)
