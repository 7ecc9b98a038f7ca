"""Read the traces of many runs as one DataFrame, refusing what is not a whole run.

A run is a directory with ``manifest.json`` (written last: the commit marker) and
``trace.parquet``. Every file is opened and its schema version compared before Spark reads any, so
that a truncated or foreign file is one clear line that names it, not a stack of Java.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from model.facts import COLUMNS, SCHEMA_VERSION

TRACE = "trace.parquet"
MANIFEST = "manifest.json"

_SPARK_TYPES: dict[str, T.DataType] = {
    "int64": T.LongType(),
    "string": T.StringType(),
    "bool": T.BooleanType(),
    "list<int64>": T.ArrayType(T.LongType()),
    "list<string>": T.ArrayType(T.StringType()),
}

TRACE_SCHEMA = T.StructType(
    [T.StructField(name, _SPARK_TYPES[kind]) for name, kind in COLUMNS.items()]
)
"""The wide trace table as Spark sees it."""


class BadInput(ValueError):
    """A directory or file cannot be judged; the message is one line that names it."""


@dataclass(frozen=True)
class Run:
    """One whole run on disk: its name below the fleet's directory, and its manifest."""

    name: str
    directory: Path
    manifest: dict[str, Any]


def find_runs(directory: Path, *, skip_bad: bool = False) -> tuple[list[Run], list[str]]:
    """Return the whole runs below ``directory``, sorted by name, and why others were left out.

    Raises:
        BadInput: no such directory, no run in it, or a run that is not whole (with ``skip_bad``
            such runs are left out and named in the second list, unless none is left).
    """
    if not directory.is_dir():
        raise BadInput(f"{directory}: no such directory")
    places = sorted(
        {path.parent for path in [*directory.rglob(TRACE), *directory.rglob(MANIFEST)]}
        - set(directory.rglob(".tmp-*"))
    )
    places = [path for path in places if not path.name.startswith(".tmp-")]
    if not places:
        raise BadInput(f"{directory}: holds no runs (no {MANIFEST} below it)")
    runs, bad = [], []
    for place in places:
        try:
            runs.append(Run(str(place.relative_to(directory)), place, _checked(place)))
        except BadInput as error:
            if not skip_bad:
                raise
            bad.append(str(error))
    if not runs:
        raise BadInput(f"{directory}: holds no whole run; the first: {bad[0]}")
    return runs, bad


def traces(spark: SparkSession, runs: Sequence[Run]) -> DataFrame:
    """Return the rows of all runs with the column ``run`` in front."""
    root = _common(runs)
    prefix = root.resolve().as_uri().replace("file://", "").rstrip("/") + "/"
    frame = spark.read.schema(TRACE_SCHEMA).parquet(*[str(run.directory / TRACE) for run in runs])
    path = F.regexp_replace(F.col("_metadata.file_path"), "^file:/*", "/")
    name = F.regexp_extract(path, r"([^/]+)/[^/]+$", 1)
    if len(runs) != len({run.directory.name for run in runs}):
        name = F.regexp_extract(path, f"^{prefix}(.*)/[^/]+$", 1)
    return frame.select(name.alias("run"), *COLUMNS)


def _common(runs: Sequence[Run]) -> Path:
    first = runs[0]
    depth = len(Path(first.name).parts) if first.name != "." else 0
    return first.directory.parents[depth - 1] if depth else first.directory


def _checked(place: Path) -> dict[str, Any]:
    manifest = _manifest(place / MANIFEST)
    path = place / TRACE
    if not path.exists():
        raise BadInput(f"{path}: is missing, though {MANIFEST} is there")
    try:
        footer = pq.read_metadata(path)
        rows = footer.num_rows
    except (pa.ArrowInvalid, OSError) as error:
        reason = str(error).split("\n")[0][:120]
        raise BadInput(f"{path}: not a whole Parquet file ({reason})") from None
    version = (footer.metadata or {}).get(b"kafkasim.schema_version", b"").decode()
    if not version:
        raise BadInput(f"{path}: no trace of kafkasim (it has no schema version)")
    if version != SCHEMA_VERSION:
        raise BadInput(
            f"{path}: written with trace schema {version}, this is {SCHEMA_VERSION};"
            " run the fleet again with this version"
        )
    if rows != manifest.get("rows", rows):
        raise BadInput(f"{path}: has {rows} rows, its manifest says {manifest['rows']}")
    return manifest


def _manifest(path: Path) -> dict[str, Any]:
    try:
        manifest = json.loads(path.read_text())
    except FileNotFoundError:
        raise BadInput(f"{path}: is missing: the run did not end") from None
    except (OSError, ValueError) as error:
        raise BadInput(f"{path}: not a manifest ({error})") from None
    if not isinstance(manifest, dict):
        raise BadInput(f"{path}: not a manifest (no JSON object)")
    return manifest
