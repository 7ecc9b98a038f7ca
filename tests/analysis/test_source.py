"""The data source: the rows of both tables, whatever the chunks; wrong options are refused."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from kafkasim.analysis.source import seeds
from kafkasim.analysis.source.jobs import Configuration, from_options, prepare, to_option
from kafkasim.analysis.source.schema import FINDINGS, RUNS, arrow
from kafkasim.analysis.source.task import run_chunk
from kafkasim.analysis.source.work import SeedRun
from kafkasim.scenarios.running.runner import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
def tiny(tmp_path: Path) -> str:
    path = tmp_path / "tiny.toml"
    path.write_text(TINY)
    return str(path)


def read(spark: SparkSession, **options: str) -> DataFrame:
    from kafkasim.analysis.source import KafkaSim

    spark.dataSource.register(KafkaSim)
    return spark.read.format("kafkasim").options(**options).load()


@pytest.mark.spark
@pytest.mark.slow
def test_both_tables_hold_what_the_runs_tell(spark: SparkSession, tiny: str) -> None:
    asked = {"scenario": tiny, "seeds": "1-3", "set.workload.0.rate": "7/s", "chunk": "2"}
    setting = "workload.0.rate=7/s"
    job = prepare([Configuration(tiny, (setting,))])[0]
    expected = [run(job.scenario, seed) for seed in (1, 2, 3)]
    runs = read(spark, table="runs", **asked).collect()
    assert [
        (r.run, r.label, r.seed, r.settings, r.verdict, r.digest, r.rows, r.exchanges,
         r.sim_seconds)
        for r in runs
    ] == [
        (f"tiny/seed-{e.seed:06d}", "tiny", e.seed, [setting], "pass", e.digest, e.events,
         e.exchanges, e.sim_seconds)
        for e in expected
    ]  # fmt: skip
    assert runs[0].topics == expected[0].topics
    facts = read(spark, **asked)
    counts = {row["run"]: row["count"] for row in facts.groupBy("run").count().collect()}
    assert counts == {f"tiny/seed-{e.seed:06d}": e.events for e in expected}
    acked = facts.where("kind = 'Acked' AND run = 'tiny/seed-000002'").orderBy("seq").collect()
    with SeedRun(job, 2) as again:
        rows = [row for batch in again.facts() for row in batch.to_pylist()]
    assert [row.asDict() for row in acked] == [row for row in rows if row["kind"] == "Acked"]


def test_a_task_makes_a_file_for_each_kind_and_table(tiny: str, tmp_path: Path) -> None:
    jobs = prepare([Configuration(tiny), Configuration(tiny, variants=("no-such-variant",))])
    chunk = [(0, 5), (1, 5), (0, 6)]
    tables = {kind: pq.read_table(io.BytesIO(content))
              for kind, content in run_chunk(jobs, chunk, tmp_path)}  # fmt: skip
    runs, found = tables.pop("Run"), tables.pop("Finding")
    assert (runs.schema, found.schema) == (arrow(RUNS), arrow(FINDINGS))
    rows: list[dict[str, Any]] = runs.to_pylist()
    assert [(row["run"], row["verdict"]) for row in rows] == [
        (jobs[0].run_name(5), "pass"),
        (jobs[1].run_name(5), "crash"),
        (jobs[0].run_name(6), "pass"),
    ]
    assert [(row["run"], row["name"]) for row in found.to_pylist()] == [(rows[1]["run"], "crash")]
    for row in (rows[0], rows[2]):
        with SeedRun(jobs[0], row["seed"]) as alone:
            assert alone.row == row | {name: dict(row[name]) for name in ("observations", "topics")}
            wide = pa.Table.from_batches(alone.facts())
        for kind, table in tables.items():
            mine = table.filter(pc.equal(table["run"], row["run"]))
            same = wide.filter(pc.equal(wide["kind"], kind)).select(table.column_names)
            assert mine.equals(same), kind
        of_run = [pc.sum(pc.equal(table["run"], row["run"])).as_py() for table in tables.values()]
        assert sum(of_run) == row["rows"]


def test_the_runs_of_a_batch_are_cut_into_tasks_that_end_together() -> None:
    from kafkasim.analysis.fleet import chunked

    part = [(0, seed) for seed in range(200)]
    chunks = chunked(part, 2)
    assert [run for chunk in chunks for run in chunk] == part
    assert [len(chunk) for chunk in chunks] == [
        25, 25, 25, 25, 25, 18, 14, 10, 8, 6, 4, 3, 3, 2, 1, 1, 1, 1, 1, 1, 1,
    ]  # fmt: skip
    assert [len(chunk) for chunk in chunked(part[:4], 2)] == [1, 1, 1, 1]


def test_a_crash_is_a_row_without_facts(tiny: str) -> None:
    job = prepare([Configuration(tiny, variants=("no-such-variant",))])[0]
    with SeedRun(job, 3) as done:
        assert list(done.facts()) == []
        (row,) = [row for batch in done.runs() for row in batch.to_pylist()]
    assert (row["run"], row["verdict"], row["digest"]) == ("tiny/seed-000003", "crash", "")
    assert "no-such-variant" in row["traceback"]


def test_configurations_of_one_name_get_labels_of_their_own(tiny: str) -> None:
    labels = [
        job.label for job in prepare([Configuration(tiny), Configuration(tiny, ("duration=2s",))])
    ]
    assert len(set(labels)) == 2
    assert all(label.startswith("tiny-") for label in labels)


def test_options_name_one_configuration_or_a_list() -> None:
    one = Configuration("split-brain", ("duration=9s",), True, ("a", "b"), "mine")
    options = {
        "scenario": "split-brain", "set.duration": "9s", "twin": "True", "variants": "a, b",
        "label": "mine",
    }  # fmt: skip
    assert from_options(options) == [one]
    assert from_options({"configurations": to_option([one, one])}) == [one, one]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option scenario is missing"),
        ({"configurations": "{"}, "option configurations: no list of configurations"),
        ({"configurations": "[1]"}, "option configurations: no list of configurations"),
    ],
)
def test_wrong_options(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        from_options(options)


def test_seeds_as_text() -> None:
    assert seeds.parse("7-9, 1,8") == [7, 8, 9, 1]
    assert seeds.text([9, 7, 8, 1, 3]) == "1,3,7-9"
    assert seeds.text([]) == ""


@pytest.mark.parametrize("text", ["", "a", "3-1", "1-", "-2", "0-999999999999"])
def test_wrong_seeds(text: str) -> None:
    with pytest.raises(ValueError, match="seeds "):
        seeds.parse(text)
