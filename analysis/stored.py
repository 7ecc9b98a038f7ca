"""Stored runs as the tables ``runs``, ``facts`` and ``findings``: a fleet's, or of run directories.

A fleet is ``<place>/runs``, ``<place>/facts/batch=B/kind=K`` and ``<place>/findings/batch=B`` on
any Hadoop file system. What ``kafkasim run --out`` leaves is a directory with ``trace.parquet`` and
``manifest.json`` on this machine; a tree of such directories is read as well. Whoever judges,
measures or draws takes a :class:`Stored` and does not see the difference.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from kafkasim.analysis.figures.timeline import OneRun
from kafkasim.analysis.runs import (
    TRACE,
    BadInput,
    StoredRun,
    check_facts,
    check_found,
    check_row,
    check_version,
    chosen,
    find_runs,
    read_trace,
)
from kafkasim.analysis.source.schema import FINDINGS, RUNS, ddl, finding_rows, stored_row
from kafkasim.analysis.spark.files import empty, folders, local_path, located, matching
from kafkasim.analysis.spark.session import INTERPRETED, tuned
from kafkasim.model.facts import COLUMNS, FACTS

RUNS_TABLE = "runs"
FACTS_PLACE = "facts"
FINDINGS_PLACE = "findings"
BATCH = "batch"

KNOWN = (
    "run", "label", "scenario", "seed", "verdict", "digest", "rows", "found", "ready_us",
    "sim_seconds", "reason", "topics", "schema_version", "config_digest", "code_version", "judges",
)  # fmt: skip
"""The columns of ``runs`` that the driver reads; the scenarios' texts stay where they are."""


@dataclass(frozen=True)
class Stored(ABC):
    """Whole runs below ``place``, sorted by name; ``bad`` says why others were left out."""

    spark: SparkSession
    place: str
    runs: list[StoredRun]
    bad: list[str] = field(default_factory=list)

    @property
    def rows(self) -> int:
        """How many facts there are."""
        return sum(int(run.manifest.get("rows", 0)) for run in self.runs)

    def has(self, kind: str) -> bool:
        """Return whether there may be facts of a kind; False means that there are none."""
        return True

    @abstractmethod
    def runs_table(self) -> DataFrame:
        """Return the table ``runs``."""

    @abstractmethod
    def findings_table(self) -> DataFrame:
        """Return the table ``findings``."""

    @abstractmethod
    def files(self, names: Collection[str]) -> list[tuple[list[str], list[tuple[str, str]]]]:
        """Return where the facts of some runs lie: runs that lie together, and their files.

        A file, or directory of files, is (kind, URI); of the kind "" it has those of all kinds.
        """

    def facts(self, kind: str) -> DataFrame:
        """Return the facts of one kind: run, seq, t_us, node, and the fields of the kind.

        A kind without rows becomes an empty query, which Spark plans away: many a fleet has no
        consumers, or no ZooKeeper.
        """
        columns = kind_columns(kind)
        found = self._read(kind, columns)
        if found is not None:
            return found.select(*columns)
        types = [part.split("` ", 1) for part in ddl(columns).split(", `")]
        nulls = [f"CAST(NULL AS {declared}) AS `{name.strip('`')}`" for name, declared in types]
        return self.spark.sql(f"SELECT {', '.join(nulls)} WHERE false")

    def rows_of(
        self, run: str, kinds: Sequence[str], columns: Sequence[str]
    ) -> list[dict[str, Any]]:
        """Return the facts of some kinds of one run, in order, with the columns asked for."""
        wanted = ["seq", "t_us", "node", "kind", *columns]
        parts = [self._wide(run, kind, wanted) for kind in kinds]
        frame = parts[0]
        for part in parts[1:]:
            frame = frame.unionByName(part)
        return [row.asDict() for row in frame.orderBy("seq").collect()]

    def one(self, name: str = "") -> OneRun:
        """Return a run by name or seed, by default the first one that did not crash.

        Raises:
            BadInput: there is no such run.
        """
        whole = {run.name: run for run in self.runs if not run.crashed}
        run = whole[chosen(list(whole), name, self.place)]
        return OneRun(
            run.name, run.manifest, lambda kinds, names: self.rows_of(run.name, kinds, names)
        )

    def _wide(self, run: str, kind: str, columns: Sequence[str]) -> DataFrame:
        mine = kind_columns(kind)
        found = self.facts(kind).where(F.col("run") == run).withColumn("kind", F.lit(kind))
        return found.selectExpr(
            *[
                f"`{name}`"
                if name in (*mine, "kind")
                else f"CAST(NULL AS {_type(name)}) AS `{name}`"
                for name in columns
            ]
        )

    @abstractmethod
    def _read(self, kind: str, columns: Mapping[str, str]) -> DataFrame | None:
        """Return the facts of a kind, None if there are none."""


@dataclass(frozen=True)
class StoredFleet(Stored):
    """The runs of a fleet. ``batches`` are those that ``runs`` names, ``parts`` their kinds."""

    batches: tuple[str, ...] = ()
    parts: Mapping[str, list[str]] = field(default_factory=dict)
    superseded: bool = False  # whether a later batch holds some run again

    @property
    def kinds(self) -> list[str]:
        """The kinds of fact that have rows."""
        return sorted(kind for kind in self.parts if kind in FACTS)

    def has(self, kind: str) -> bool:
        """Return whether there may be facts of a kind; False means that there are none."""
        return kind in self.parts

    def runs_table(self) -> DataFrame:
        """Return the table ``runs``, of each run the latest row."""
        return self._mine(read_runs(self.spark, self.place))

    def findings_table(self) -> DataFrame:
        """Return the table ``findings``, of each run those of its latest batch."""
        base = f"{self.place}/{FINDINGS_PLACE}"
        reader = self.spark.read.schema(ddl({**FINDINGS, BATCH: "string"}))
        places = [f"{base}/{BATCH}={batch}" for batch in self.batches]
        return self._mine(reader.option("basePath", base).parquet(*places)).select(*FINDINGS)

    def files(self, names: Collection[str]) -> list[tuple[list[str], list[tuple[str, str]]]]:
        """Return the runs of each batch, and its directories of kinds."""
        mine: dict[str, list[str]] = {}
        for run in self.runs:
            if run.name in names:
                mine.setdefault(run.manifest[BATCH], []).append(run.name)
        parts = [(kind, part) for kind in self.kinds for part in self.parts[kind]]
        return [
            (mine[batch], [(kind, part) for kind, part in parts if _batch(part) == batch])
            for batch in sorted(mine)
        ]

    def _read(self, kind: str, columns: Mapping[str, str]) -> DataFrame | None:
        parts = self.parts.get(kind, [])
        if not parts:
            return None
        base = f"{self.place}/{FACTS_PLACE}"
        reader = self.spark.read.schema(ddl({**columns, BATCH: "string"}))
        return self._mine(reader.option("basePath", base).parquet(*parts))

    def _mine(self, frame: DataFrame) -> DataFrame:
        """Return the rows of these runs: of each run those of its latest batch."""
        return self._current(frame) if self.superseded else frame

    def _current(self, frame: DataFrame) -> DataFrame:
        named = [(run.name, run.manifest[BATCH]) for run in self.runs]
        current = self.spark.createDataFrame(named, f"run STRING, {BATCH} STRING")
        return frame.join(F.broadcast(current), ["run", BATCH], "left_semi")


@dataclass(frozen=True)
class StoredDirectories(Stored):
    """Directories of ``run --out``, each with a trace of all kinds."""

    @cached_property
    def kinds(self) -> frozenset[str]:
        """The kinds of fact that have rows: the dictionary of the column, without its values."""
        names = ["kind"]
        columns = (read_trace(run.place, names, read_dictionary=names)["kind"]
                   for run in self.runs if not run.crashed)  # fmt: skip
        return frozenset(
            kind for column in columns for chunk in column.chunks
            for kind in chunk.dictionary.to_pylist()
        )  # fmt: skip

    def has(self, kind: str) -> bool:
        """Return whether there are facts of a kind."""
        return kind in self.kinds

    def runs_table(self) -> DataFrame:
        """Return the table ``runs``."""
        rows = [stored_row({"run": run.name, "label": label(run), **run.manifest})
                for run in self.runs]  # fmt: skip
        return self.spark.createDataFrame(rows, ddl(RUNS))

    def findings_table(self) -> DataFrame:
        """Return the table ``findings``."""
        rows = [row for run in self.runs
                for row in finding_rows({**run.manifest, "run": run.name})]  # fmt: skip
        return self.spark.createDataFrame(rows, ddl(FINDINGS))

    def files(self, names: Collection[str]) -> list[tuple[list[str], list[tuple[str, str]]]]:
        """Return each run with its trace."""
        mine = [run for run in self.runs if run.name in names]
        return [([run.name], [("", (run.place / TRACE).resolve().as_uri())]) for run in mine]

    def _read(self, kind: str, columns: Mapping[str, str]) -> DataFrame | None:
        whole = [run for run in self.runs if not run.crashed]
        if not self.has(kind):
            return None
        stored = {name: declared for name, declared in columns.items() if name != "run"}
        files = [str(run.place / TRACE) for run in whole]
        frame = self.spark.read.schema(ddl({**stored, "kind": "string"})).parquet(*files)
        return frame.where(F.col("kind") == kind).withColumn("run", self._run_of(whole))

    def _run_of(self, runs: Sequence[StoredRun]) -> Any:
        if len(runs) == 1:
            return F.lit(runs[0].name)
        pairs = [
            F.lit(text)
            for run in runs
            for text in ((run.place / TRACE).resolve().as_uri().removeprefix("file://"), run.name)
        ]
        path = F.regexp_replace(F.col("_metadata.file_path"), "^file:/+", "/")
        return F.create_map(*pairs)[path]


def open_stored(spark: SparkSession, place: str, skip_bad: bool = False) -> Stored:
    """Return the whole runs below a place.

    Raises:
        BadInput: there is none, one is not whole (left out with ``skip_bad``), or they were written
            by another version.
    """
    where = located(spark, place)
    if matching(spark, f"{where}/{RUNS_TABLE}/*.parquet"):
        return _fleet(spark, where)
    path = local_path(where)
    if path is None:
        raise BadInput(f"{place}: holds no runs of a fleet")
    if (path / FACTS_PLACE).exists():
        missing = f"{path / RUNS_TABLE}: holds no rows of runs, though {FACTS_PLACE} is there"
        raise BadInput(
            f"{missing}: the fleet has not ended its first batch, or the files were lost"
        )
    runs, bad = find_runs(path, skip_bad=skip_bad)
    return StoredDirectories(spark, where, runs, bad)


def read_runs(spark: SparkSession, where: str) -> DataFrame:
    """Return the table ``runs`` of a fleet as it is stored.

    Raises:
        BadInput: a file of it is empty, or a directory; its runs would be missing without a word.
    """
    for path in empty(spark, f"{where}/{RUNS_TABLE}/*.parquet"):
        raise BadInput(f"{path}: not a whole Parquet file (it is empty)")
    for path in folders(spark, f"{where}/{RUNS_TABLE}/*.parquet"):
        raise BadInput(f"{path}: not a Parquet file (it is a directory)")
    return spark.read.schema(ddl({**RUNS, BATCH: "string"})).parquet(f"{where}/{RUNS_TABLE}")


def _fleet(spark: SparkSession, where: str) -> StoredFleet:
    with tuned(spark, INTERPRETED):
        rows = read_runs(spark, where).select(*KNOWN, BATCH).collect()
    rows.sort(key=lambda row: (row[BATCH] or "", row["run"] or ""))
    current = {row["run"]: row for row in rows}
    for row in current.values():
        check_version(where, row["run"], row["schema_version"])
    for row in rows:
        check_row(where, row.asDict())
    runs = [StoredRun(name, None, current[name].asDict()) for name in sorted(current)]
    batches = sorted({row[BATCH] for row in current.values()})
    here = local_path(where)
    if here is not None:
        for batch in batches:
            mine = [row for row in rows if row[BATCH] == batch]
            facts = {row["run"]: row["rows"] for row in mine}
            check_facts(here / FACTS_PLACE / f"{BATCH}={batch}", facts)
            found = {row["run"]: row["found"] for row in mine}
            check_found(here / FINDINGS_PLACE / f"{BATCH}={batch}", found)
    parts: dict[str, list[str]] = {}
    for part in matching(spark, f"{where}/{FACTS_PLACE}/{BATCH}=*/kind=*"):
        if _batch(part) in batches:
            parts.setdefault(part.rpartition("=")[2], []).append(part)
    superseded = len(rows) > len(current)
    return StoredFleet(spark, where, runs, [], tuple(batches), parts, superseded)


def kind_columns(kind: str) -> dict[str, str]:
    """Return the columns of the facts of one kind, name to type."""
    mine = [field.name for field in fields(FACTS[kind]) if field.name != "kind"]
    return {"run": "string", **{name: COLUMNS[name] for name in ("seq", "t_us", "node", *mine)}}


def label(run: StoredRun) -> str:
    """Return the configuration that a run belongs to: what its name has before the seed."""
    return run.name.rpartition("/")[0] or str(run.manifest["scenario"])


def _batch(part: str) -> str:
    """Return the batch of a directory of one kind of facts."""
    return part.split("/")[-2].partition("=")[2]


def _type(column: str) -> str:
    return ddl({column: COLUMNS[column]}).partition(" ")[2]
