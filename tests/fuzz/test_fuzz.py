"""Mutated input gives a verdict or one line, never an exception: 2 150 seeded mutants.

``tests/soak/test_mutants.py`` tries 100 000. The mutants that found a defect stay: those of
scenarios in ``tests/scenarios/test_bad_input.py``, those of manifests in ``REGRESSIONS``.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from kafkasim.scenarios.cli import invoke
from tests.fuzz.harness import answer, properties_mutant, scenario_mutant, short_runs, stored_run
from tests.fuzz.readers import COMMANDS as READERS
from tests.fuzz.readers import ReadRun, write_fleet

SCENARIOS, PROPERTIES, STORED, READ = 1200, 400, 400, 150
RUN_EVERY = 8
CHUNKS = 4

MINIMAL = {"name": "x", "claim": "c", "duration": "1s"}

FINDING = {
    "name": "offset-regression", "topic_id": "", "partition": 0, "count": 1, "text": "",
    "expected_by": "", "offset": -1, "record_id": -1, "group": "", "t_us": -1, "cause": "",
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
    "findings that are no list": ("findings", 3),
    "a finding that is a text": ("findings", ["x"]),
    "a finding without a name": ("findings", [{"text": "", "seq": 1}]),
    "a finding of a row that is not there": ("findings", [FINDING | {"seq": 10**6}]),
    "a finding of a row of another kind": ("findings", [FINDING | {"seq": 0}]),
    "a finding of no row": ("findings", [FINDING | {"seq": 10**30}]),
    "anomalies that are no names": ("anomalies", [{}]),
    "an observation without a time": ("observations", {"fenced": None}),
    "observations that are no table": ("observations", []),
    "more rows than the trace has": ("rows", 10**6),
    "settings that are no texts": ("settings", [{}]),
    "simulated for a text": ("sim_seconds", "x"),
    "a topic whose name is a number": ("topics", {"t": 3}),
}
"""Keys of a manifest and the values with which kafkasim once failed."""

QUICK_READERS = (["metrics"], ["check"])

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


@pytest.mark.slow
def test_a_mutated_run_is_judged_measured_and_drawn_or_refused(tmp_path: Path) -> None:
    with stored_run(tmp_path) as stored:
        reading = ReadRun(stored)
        tried = {number: reading.try_mutant(number) for number in range(READ)}
    assert {number: wrong for number, wrong in tried.items() if wrong} == {}


@pytest.mark.parametrize("command", READERS, ids=" ".join)
def test_a_run_without_its_manifest_or_trace_is_refused(tmp_path: Path, command: list[str]) -> None:
    with stored_run(tmp_path) as stored:
        reading = ReadRun(stored)
        manifest = json.dumps(stored.manifest).encode()
        found = {}
        for name, files in (
            ("whole", (manifest, stored.trace)), ("no manifest", (None, stored.trace)),
            ("no trace", (manifest, None)), ("empty manifest", (b"", stored.trace)),
            ("empty trace", (manifest, b"")), ("half a trace", (manifest, stored.trace[:5000])),
        ):  # fmt: skip
            reading.write(*files)
            found[name] = reading.code(command)
        reading.write_table(lambda table: table, version="0")
        found["another version"] = reading.code(command)
        reading.write_table(lambda table: table.drop_columns(["leader_epoch"]))
        found["a column less"] = reading.code(command)
    assert found == {name: 0 if name == "whole" else 2 for name in found}


def test_a_manifest_that_once_made_kafkasim_fail_is_refused(tmp_path: Path) -> None:
    with stored_run(tmp_path) as stored:
        reading, found = ReadRun(stored), {}
        for name, (key, value) in REGRESSIONS.items():
            manifest = json.dumps({**stored.manifest, key: value}).encode()
            for command in COMMANDS:
                if wrong := stored.answer(manifest, stored.trace, command):
                    found[name, *command] = wrong
            reading.write(manifest, stored.trace)
            for command in QUICK_READERS:
                if wrong := reading.answer(command):
                    found[name, *command] = wrong
    assert found == {}


@pytest.mark.parametrize("command", [["describe", "topics"], ["explain"], ["replay"]], ids=" ".join)
def test_a_damaged_run_of_a_fleet_is_named_by_the_fleet_and_its_name(
    tmp_path: Path, command: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    """Not by the directory to which its rows are copied, which is gone by then."""
    place = tmp_path / "fleet"
    with stored_run(tmp_path) as stored:
        trace = pq.read_table(stored.base / "trace.parquet")
        write_fleet(place, stored.manifest | {"spec": {"topics": "x"}}, trace)
        assert invoke([command[0], str(place), *command[1:]]) == 2
    notice, error = capsys.readouterr().err.splitlines()
    assert notice == f"fuzz/seed-000001 of {place}"
    assert error.startswith(f"kafkasim: error: {place}: fuzz/seed-000001/manifest.json: "), error


def test_the_harness_sees_an_exception_and_a_message_without_the_file(tmp_path: Path) -> None:
    path = tmp_path / "good.toml"
    path.write_text('name = "x"\nclaim = "c"\nduration = "1s"\n')
    with short_runs(1) as runner:
        runner.every = 0  # the stand-in divides by it
        assert "ZeroDivisionError" in answer(["run", str(path)], path)
    assert "not one line that names" in answer(["run", "no-such-scenario"], path)
