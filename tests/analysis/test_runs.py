"""What is no whole run is refused in one line that names the file."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.runs import BadInput, check_row, find_runs
from kafkasim.sim.trace.reading import last_moment
from kafkasim.sim.trace.store import ManifestError
from tests.analysis.analysis_rows import end, write_run


def refusal(directory: Path) -> str:
    with pytest.raises(BadInput) as caught:
        find_runs(directory)
    text = str(caught.value)
    assert "\n" not in text
    return text.replace(str(directory), "DIR")


def test_no_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path / "none") == "DIR: no such directory"


def test_empty_directory(tmp_path: Path) -> None:
    assert refusal(tmp_path) == "DIR: holds no runs (no manifest.json below it)"


def test_truncated_trace(tmp_path: Path) -> None:
    trace = write_run(tmp_path / "a" / "seed-000001", [end()]) / "trace.parquet"
    trace.write_bytes(trace.read_bytes()[:-100])
    assert refusal(tmp_path).startswith(
        "DIR/a/seed-000001/trace.parquet: not a whole Parquet file ("
    )


def test_foreign_trace(tmp_path: Path) -> None:
    trace = write_run(tmp_path / "seed-1", [end()]) / "trace.parquet"
    pq.write_table(pa.table({"x": [1]}), trace)
    assert refusal(tmp_path) == (
        "DIR/seed-1/trace.parquet: no trace of kafkasim (it has no schema version)"
    )


def test_foreign_trace_is_refused_by_those_who_describe_a_run(tmp_path: Path) -> None:
    trace = write_run(tmp_path / "seed-1", [end()]) / "trace.parquet"
    pq.write_table(pa.table({"x": [1]}), trace)
    with pytest.raises(ManifestError, match=r"trace.parquet: is no trace of kafkasim"):
        last_moment(trace.parent)


def test_another_schema_version(tmp_path: Path) -> None:
    trace = write_run(tmp_path / "seed-1", [end()]) / "trace.parquet"
    schema = pa.schema([("x", pa.int64())], metadata={"kafkasim.schema_version": "old"})
    pq.write_table(pa.table({"x": [1]}, schema=schema), trace)
    assert "seed-1/trace.parquet: written with trace schema old, this is " in refusal(tmp_path)


def test_fewer_rows_than_promised(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-1", [end()], rows=2)
    assert refusal(tmp_path) == "DIR/seed-1/trace.parquet: has 1 rows, its manifest says 2"


def test_no_manifest(tmp_path: Path) -> None:
    (write_run(tmp_path / "seed-1", [end()]) / "manifest.json").unlink()
    assert refusal(tmp_path) == "DIR/seed-1/manifest.json: is missing: the run did not end"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "not a manifest (Expecting property name enclosed in double quotes: "),
        ("[]", "not a manifest (no JSON object)"),
        (
            json.dumps({"scenario": "s", "seed": 1}),
            "not a manifest (it lacks digest, verdict, findings, judges)",
        ),
    ],
)
def test_no_proper_manifest(tmp_path: Path, content: str, message: str) -> None:
    (write_run(tmp_path / "seed-1", [end()]) / "manifest.json").write_text(content)
    assert refusal(tmp_path).startswith(f"DIR/seed-1/manifest.json: {message}")


def test_bad_runs_are_skipped_on_request(tmp_path: Path) -> None:
    write_run(tmp_path / "a" / "seed-000001", [end()])
    write_run(tmp_path / "a" / "seed-000002", [end()], rows=9)
    runs, bad = find_runs(tmp_path, skip_bad=True)
    assert [run.name for run in runs] == ["a/seed-000001"]
    assert [line.replace(str(tmp_path), "DIR") for line in bad] == [
        "DIR/a/seed-000002/trace.parquet: has 1 rows, its manifest says 9"
    ]


def test_nothing_is_left_to_judge(tmp_path: Path) -> None:
    write_run(tmp_path / "seed-1", [end()], rows=9)
    with pytest.raises(BadInput, match=r"holds no whole run; the first: .*seed-1/trace.parquet"):
        find_runs(tmp_path, skip_bad=True)


def test_a_crashed_run_needs_no_trace(tmp_path: Path) -> None:
    place = write_run(tmp_path / "seed-1", [end()], verdict="crash")
    (place / "trace.parquet").unlink()
    assert [run.crashed for run in find_runs(tmp_path)[0]] == [True]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("rows", None),
        ("batch", None),
        ("anomalies", ["lost-write", None]),
        ("topics", {"t": None}),
    ],
)
def test_a_row_of_a_fleet_without_a_value_is_refused(name: str, value: object) -> None:
    row = {"run": "a/seed-000001", "traceback": None, "rows": 3, "batch": "b", "anomalies": [],
           "topics": {"t": "orders"}}  # fmt: skip
    check_row("fleet", row)
    with pytest.raises(BadInput, match=f"^fleet: the row of a/seed-000001 .* has no {name}$"):
        check_row("fleet", {**row, name: value})
