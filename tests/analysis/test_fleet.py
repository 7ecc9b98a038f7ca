"""A fleet: one directory per run, resumed where it stopped, crashes as rows, digests replayed."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
import pytest

from kafkasim.analysis import fleet
from kafkasim.analysis.compact import compact
from kafkasim.analysis.runs import compacted, find_runs
from kafkasim.model.facts import FACTS
from tests.analysis.analysis_rows import acked, end, write_run

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TINY = """
name = "tiny"
claim = "Nothing happens and nothing is lost."
duration = "1s"
[cluster]
brokers = 1
controllers = 1
[cluster.config]
"offsets.topic.num.partitions" = 1
"offsets.topic.replication.factor" = 1
[[topics]]
name = "orders"
replication-factor = 1
[[workload]]
kind = "producer"
rate = "5/s"
[[workload]]
kind = "consumer-group"
"""


@pytest.fixture
def tiny(tmp_path: Path) -> fleet.Configuration:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return fleet.Configuration(str(path))


def files(out: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(out)): path.read_bytes()
        for path in sorted(out.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


@pytest.mark.spark
def test_a_killed_fleet_continues_to_the_same_files(
    spark: SparkSession,
    tiny: fleet.Configuration,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fleet, "HASH_SEED_RUNS", 2)  # two values of PYTHONHASHSEED, then one
    out = tmp_path / "out"
    told: list[tuple[int, int]] = []
    first = fleet.run_fleet(
        [tiny], [1, 2], out, spark=spark, progress=lambda done, total, _: told.append((done, total))
    )
    assert (first.ran, first.skipped, first.replayed, first.mismatches) == (2, 0, 1, [])
    assert (first.exit_code, told[-1]) == (0, (2, 2))
    whole = files(out)
    # As if killed: one run is unfinished, another attempt lies about, nothing is compacted.
    (out / "runs" / "tiny" / "seed-000002" / "manifest.json").unlink()
    (out / "runs" / "tiny" / ".tmp-seed-000002-t9").mkdir()
    shutil.rmtree(out / "trace")
    second = fleet.run_fleet([tiny], [1, 2], out, spark=spark)
    assert (second.ran, second.skipped) == (1, 1)
    assert files(out) == whole


def test_a_crash_is_a_row(tiny: fleet.Configuration, tmp_path: Path) -> None:
    job = fleet.prepare([tiny])[0]
    broken = fleet.FleetJob(job.label, job.scenario, ("no-such-variant",), job.config_digest)
    done = fleet.run_one(("tiny", 3), {"tiny": broken}, str(tmp_path / "out"))
    assert done == ("tiny", 3, "crash")
    manifest = json.loads((fleet.place(tmp_path / "out", "tiny", 3) / "manifest.json").read_text())
    assert manifest["verdict"] == "crash"
    assert "no-such-variant" in manifest["traceback"]
    assert [run.crashed for run in find_runs(tmp_path / "out")[0]] == [True]


def test_configurations_of_one_name_get_directories_of_their_own(
    tiny: fleet.Configuration,
) -> None:
    other = fleet.Configuration(tiny.name, ("duration=2s",))
    labels = [job.label for job in fleet.prepare([tiny, other])]
    assert len(set(labels)) == 2
    assert all(label.startswith("tiny-") for label in labels)


def test_compacted_trace_is_used_only_while_it_is_current(tmp_path: Path) -> None:
    write_run(tmp_path / "runs" / "a" / "seed-000001", [acked(0, 1), end()])
    write_run(tmp_path / "runs" / "a" / "seed-000002", [end()], seed=2)
    count = compact(tmp_path)
    runs, _ = find_runs(tmp_path)
    parts = compacted(tmp_path, runs)
    assert (list(parts), count) == (sorted(FACTS), len(FACTS))
    (part,) = parts["Phase"]
    assert part.relative_to(tmp_path) == Path("trace", "kind=Phase", "part-00000.parquet")
    assert pq.read_table(part, partitioning=None).to_pylist() == [
        row("a/seed-000001", 1), row("a/seed-000002", 0),
    ]  # fmt: skip
    assert pq.read_metadata(parts["Polled"][0]).num_rows == 0
    assert compacted(tmp_path, runs[:1]) == {}
    part.write_bytes(part.read_bytes()[:-9])
    assert compacted(tmp_path, runs) == {}
    assert compact(tmp_path) == count
    assert compacted(tmp_path, runs) == parts


def row(run: str, seq: int) -> dict[str, object]:
    """Return the end of a run as its kind's table has it."""
    return {
        "run": run, "seq": seq, "t_us": seq * 1_000_000, "node": "world", "phase": "end",
        "reason": "converged",
    }  # fmt: skip


def test_a_table_goes_on_in_another_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("kafkasim.analysis.compact.PART_ROWS", 2)
    monkeypatch.setattr("kafkasim.analysis.compact.HELD_ROWS", 1)
    for seed in (1, 2, 3):
        write_run(tmp_path / "runs" / "a" / f"seed-00000{seed}", [end()], seed=seed)
    compact(tmp_path)
    files = compacted(tmp_path, find_runs(tmp_path)[0])["Phase"]
    tables = [pq.read_table(file, partitioning=None, columns=["run"]) for file in files]
    assert [table.column("run").to_pylist() for table in tables] == [
        ["a/seed-000001", "a/seed-000002"], ["a/seed-000003"],
    ]  # fmt: skip
