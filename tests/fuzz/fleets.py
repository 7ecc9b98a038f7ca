"""Mutants of a stored fleet: a file is damaged, is a directory, or is gone; a row lacks a value.

A whole fleet is copied, one place in it is changed, and Spark opens it as ``check``, ``metrics``
and ``plot`` do. Right answers are the runs, or one line that names the place.
"""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.spark.files import damaged
from kafkasim.analysis.stored import Stored, open_stored
from kafkasim.analysis.verdict import judge
from kafkasim.sim.trace.store import judges_version
from tests.fuzz.mutations import mutate_bytes

Rows = Callable[[Any], Any]

KINDS = ("bytes", "cut", "empty", "directory", "gone", "file", "null", "type", "lacks", "rows")


class DamagedFleet:
    """The copies of one fleet, each with one damage."""

    def __init__(self, spark: SparkSession, whole: Path, place: Path) -> None:
        self._spark = spark
        self._whole = whole
        self._place = place

    def try_mutant(self, number: int) -> str:
        """Try the ``number``-th mutant; return what is wrong with the answer, or ""."""
        what = self.damage(random.Random(number))
        wrong = self.refusal()[1]
        return f"{what}: {wrong}" if wrong else ""

    def refusal(self) -> tuple[str, str]:
        """Open the fleet; return the line that refuses it, or "", and what is wrong with that."""
        try:
            self._read(open_stored(self._spark, str(self._place)))
        except BadInput as error:
            told = str(error)
        except Exception as error:
            found = damaged(error)
            if found is None:
                return "", f"{type(error).__name__}: {str(error)[:300]}"
            told = found
        else:
            return "", ""
        wrong = "\n" in told or str(self._place) not in told
        return told, f"not one line that names {self._place}: {told}" if wrong else ""

    def _read(self, stored: Stored) -> None:
        """Read all facts and findings."""
        for kind in stored.kinds:  # type: ignore[attr-defined]  # of a StoredFleet
            stored.facts(kind).collect()
        judge(stored, judges_version())

    def copy(self) -> Path:
        """Put the whole fleet in its place, and return that."""
        shutil.rmtree(self._place, ignore_errors=True)
        shutil.copytree(self._whole, self._place)
        return self._place

    def damage(self, rng: random.Random, kind: str = "") -> str:
        """Write a mutant, of a kind if one is named, and return what it is."""
        place = self.copy()
        kind = kind or rng.choice(KINDS)
        file = rng.choice(sorted(place.rglob("*.parquet")))
        if kind == "file":
            file = rng.choice(sorted(each for each in place.rglob("*") if each.is_dir()))
            shutil.rmtree(file)
            file.write_bytes(b"x")
        elif kind in ("null", "type", "lacks", "rows"):
            return f"{_change(rng, file, kind)} in {file.relative_to(place)}"
        else:
            content = file.read_bytes()
            file.unlink()
            if kind == "directory":
                file.mkdir()
            elif kind == "bytes":
                file.write_bytes(mutate_bytes(rng, content))
            elif kind != "gone":
                file.write_bytes(content[: rng.randrange(len(content))] if kind == "cut" else b"")
        return f"{kind}: {file.relative_to(place)}"


def _change(rng: random.Random, file: Path, kind: str) -> str:
    table = pq.read_table(file, partitioning=None)
    name = rng.choice(table.column_names)
    at = table.column_names.index(name)
    if kind == "null":
        none = pa.nulls(table.num_rows, table.schema.field(at).type)
        table = table.set_column(at, name, none)
    elif kind == "type":
        table = table.set_column(at, name, pa.array([0.5] * table.num_rows))
    elif kind == "lacks":
        table = table.drop_columns([name])
    else:
        table = table.slice(0, rng.randrange(table.num_rows))
    pq.write_table(table, file)
    return f"{name} {kind}"
