"""Directories of ``run --out`` below a directory; whatever is not a whole run is refused.

A run is a directory with ``trace.parquet`` and ``manifest.json``, which is written last and so
marks the run as finished. Every trace is opened and its schema version compared before anything is
judged, so a truncated or foreign file gives one clear line that names it. Needs no Spark.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.analysis.judging.finding import is_finding
from kafkasim.analysis.source.schema import AS_JSON, FINDINGS, RUNS, arrow
from kafkasim.model.facts import COLUMNS, FACTS, SCHEMA_VERSION

TRACE = "trace.parquet"
MANIFEST = "manifest.json"

COLUMN_TYPES = dict(zip(COLUMNS, arrow(COLUMNS).types, strict=True))
"""The columns of a trace, and Arrow's types of them."""

KEY = {"run": pa.string(), "seq": pa.int64(), "t_us": pa.int64()}
"""The columns that every file of facts has."""

FINDING_TYPES = arrow(FINDINGS)

MAY_BE_NULL = ("traceback",)
"""What a manifest may have as null."""

NEEDED = ("scenario", "seed", "digest", "verdict", "findings", "judges")
"""What a manifest must hold to be read."""

_WORDS = {
    "string": "text", "int64": "whole number of 64 bits", "double": "number", "bool": "truth value",
    "list<string>": "list of texts", "map<string, int64>": "table of whole numbers",
    "map<string, string>": "table of texts", "table": "table",
}  # fmt: skip


class BadInput(ValueError):
    """A directory or file cannot be read as runs; the message is one line that names it."""


@dataclass(frozen=True)
class StoredRun:
    """A whole run. ``name`` is its path below the place that was asked for, ``directory`` where it
    lies if it is a directory of its own, ``manifest`` what it says of itself."""

    name: str
    directory: Path | None
    manifest: dict[str, Any]

    @property
    def place(self) -> Path:
        """The directory of a run that has one of its own."""
        assert self.directory is not None, f"{self.name} lies in the tables of a fleet"
        return self.directory

    @property
    def crashed(self) -> bool:
        """Whether the simulator crashed in it; there is no trace then."""
        return self.manifest.get("verdict") == "crash"


def find_runs(directory: Path, *, skip_bad: bool = False) -> tuple[list[StoredRun], list[str]]:
    """Return the whole runs below ``directory``, sorted by name, and why others were left out.

    Raises:
        BadInput: no such directory, no run in it, or a run that is not whole (with ``skip_bad``
            such runs are left out and named in the second list, unless none is left).
    """
    if not directory.is_dir():
        raise BadInput(f"{directory}: no such directory")
    found = {path.parent for name in (TRACE, MANIFEST) for path in directory.rglob(name)}
    if not found:
        raise BadInput(f"{directory}: holds no runs (no {MANIFEST} below it)")
    runs, bad = [], []
    for place in sorted(found):
        try:
            runs.append(StoredRun(run_name(place, directory), place, _checked(place)))
        except BadInput as error:
            if not skip_bad:
                raise
            bad.append(str(error))
    if not runs:
        raise BadInput(f"{directory}: holds no whole run; the first: {bad[0]}")
    return runs, bad


def run_name(place: Path, directory: Path) -> str:
    """Return the name of the run at ``place``: its path below ``directory``."""
    return "/".join(place.relative_to(directory).parts) or directory.resolve().name


def check_version(place: str | Path, run: str | None, version: str | None) -> None:
    """Raise BadInput unless a row of a fleet's ``runs`` was written with this trace schema."""
    if run is None or version is None:
        raise BadInput(f"{place}: its table runs is not one of kafkasim")
    if version != SCHEMA_VERSION:
        raise BadInput(
            f"{place}: {run} was written with trace schema {version}, this is {SCHEMA_VERSION};"
            " run it again with this version"
        )


def check_row(place: str | Path, row: Mapping[str, Any]) -> None:
    """Raise BadInput unless a row of a fleet's ``runs`` has a value in each of its columns.

    A fleet fills all columns (``source/schema.py:stored_row``): only what was damaged has none.
    """
    lacking = [name for name, value in row.items() if name not in MAY_BE_NULL and _has_null(value)]
    if lacking:
        raise BadInput(
            f"{place}: the row of {row.get('run')} in its table runs has no {', '.join(lacking)}"
        )


def _has_null(value: Any) -> bool:
    """Return whether a value is null, or a list or table with a null in it."""
    if isinstance(value, Mapping):
        return any(each is None for pair in value.items() for each in pair)
    return value is None or (isinstance(value, list | tuple) and any(map(_has_null, value)))


def check_facts(batch: Path, runs: Mapping[str, int]) -> None:
    """Raise BadInput unless the facts of a batch of a fleet are whole; ``runs``: facts by run."""
    files = [path for path in sorted(batch.glob("kind=*/*.parquet"))
             if path.parent.name.removeprefix("kind=") in FACTS]  # fmt: skip
    _check_counted(batch, files, runs, "facts", KEY)


def check_found(batch: Path, runs: Mapping[str, int]) -> None:
    """Raise BadInput unless the findings of a batch are whole; ``runs``: findings by run."""
    columns = {name: FINDING_TYPES.field(name).type for name in FINDINGS}
    _check_counted(batch, sorted(batch.glob("*.parquet")), runs, "findings", columns)


def _check_counted(
    batch: Path, files: Sequence[Path], runs: Mapping[str, int], what: str,
    columns: Mapping[str, pa.DataType],
) -> None:  # fmt: skip
    """Raise BadInput unless files have the columns, and as many rows as the runs say.

    Only the ends of the files are read: how many rows they have, and the first and the last of
    their runs.
    """
    rows = sum(runs.values())
    found = 0
    for path in files:
        try:
            footer = pq.read_metadata(path)
            schema = footer.schema.to_arrow_schema()
        except (pa.ArrowException, OSError, ValueError) as error:
            reason = str(error).split("\n")[0][:120]
            raise BadInput(f"{path}: not a whole Parquet file ({reason})") from None
        for name, kind in columns.items():
            if name not in schema.names or schema.field(name).type != kind:
                raise BadInput(f"{path}: no {what} of kafkasim (no column {name} of type {kind})")
        found += footer.num_rows
        if not _known(footer, runs):
            raise BadInput(f"{path}: has {what} of a run that is not in the table runs")
    if found != rows:
        raise BadInput(f"{batch}: holds {found} {what}, its runs have {rows}")


def _known(footer: pq.FileMetaData, runs: Mapping[str, int]) -> bool:
    """Return whether the runs of a file of facts are known, as far as its end tells."""
    at = footer.schema.names.index("run")
    for group in range(footer.num_row_groups):
        told = footer.row_group(group).column(at).statistics
        if told is not None and (told.null_count or not _in(told, runs)):
            return False
    return True


def _in(told: pq.Statistics, runs: Mapping[str, int]) -> bool:
    return not told.has_min_max or (told.min in runs and told.max in runs)


def chosen(names: Sequence[str], wanted: str, place: str | Path) -> str:
    """Return the run that ``wanted`` names: by its name, by its seed, or with "" the first.

    Raises:
        BadInput: there is none, or several have the seed.
    """
    if wanted in names or (names and not wanted):
        return wanted or names[0]
    found = [name for name in names if _seed(name) == wanted.lstrip("0").rjust(1, "0")]
    if len(found) == 1:
        return found[0]
    if found:
        raise BadInput(f"{place}: {len(found)} runs have seed {wanted}; name one, e.g. {found[0]}")
    raise BadInput(f"{place}: holds no run {wanted}".rstrip() + " with facts")


def _seed(name: str) -> str | None:
    text = name.rpartition("/seed-")[2]
    return str(int(text)) if text.isdecimal() else None


def _checked(place: Path) -> dict[str, Any]:
    manifest = read_manifest(place / MANIFEST)
    if manifest.get("verdict") != "crash":
        check_trace(place / TRACE, manifest)
    return manifest


def check_trace(path: Path, manifest: Mapping[str, Any]) -> None:
    """Raise BadInput unless ``path`` is the whole trace of this version that the manifest names."""
    if not path.exists():
        raise BadInput(f"{path}: is missing, though {MANIFEST} is there")
    try:
        footer = pq.read_metadata(path)
        found = footer.schema.to_arrow_schema()
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0][:120]
        raise BadInput(f"{path}: not a whole Parquet file ({reason})") from None
    version = (footer.metadata or {}).get(b"kafkasim.schema_version", b"").decode(errors="replace")
    if not version:
        raise BadInput(f"{path}: no trace of kafkasim (it has no schema version)")
    if version != SCHEMA_VERSION:
        raise BadInput(
            f"{path}: written with trace schema {version}, this is {SCHEMA_VERSION};"
            " run it again with this version"
        )
    for name, kind in COLUMN_TYPES.items():
        if name not in found.names or found.field(name).type != kind:
            raise BadInput(f"{path}: no trace of kafkasim (no column {name} of type {kind})")
    rows = footer.num_rows
    if rows != manifest.get("rows", rows):
        raise BadInput(f"{path}: has {rows} rows, its manifest says {manifest['rows']}")


def read_trace(directory: Path, columns: Sequence[str], **how: Any) -> pa.Table:
    """Return columns of a run's trace; ``how`` are further arguments of ``read_table``.

    Raises:
        BadInput: the file cannot be read to its end.
    """
    path = directory / TRACE
    try:
        return pq.read_table(path, columns=list(columns), partitioning=None, **how)
    except (pa.ArrowException, OSError, ValueError) as error:
        reason = str(error).split("\n")[0][:120]
        raise BadInput(f"{path}: not a whole Parquet file ({reason})") from None


def check_values(directory: Path, rows: pa.Table) -> None:
    """Raise BadInput unless every row of a trace has the fields that its kind always has."""
    kinds = rows["kind"]
    for name in rows.column_names:
        if rows[name].null_count:
            of = pa.array([kind for kind, needed in _FIELDS.items() if name in needed], pa.string())
            missing = pc.and_(pc.is_null(rows[name]), pc.is_in(kinds, value_set=of))
            if pc.any(missing).as_py():
                kind = kinds.filter(missing)[0]
                raise BadInput(f"{directory / TRACE}: a row of kind {kind} has no {name}")


_FIELDS = {
    kind: ["seq", "t_us", "node", *[
        name for name, field in fact.__dataclass_fields__.items()  # type: ignore[attr-defined]
        if "None" not in str(field.type)
    ]]
    for kind, fact in FACTS.items()
}  # fmt: skip
"""What a row of each kind always has."""


def read_manifest(path: Path) -> dict[str, Any]:
    """Return a manifest.

    Raises:
        BadInput: it is missing, no JSON, no object, or lacks what a verdict needs.
    """
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"{path}: is missing: the run did not end") from None
    except (OSError, ValueError, RecursionError) as error:
        raise BadInput(f"{path}: not a manifest ({error})") from None
    if not isinstance(manifest, dict):
        raise BadInput(f"{path}: not a manifest (no JSON object)")
    lacking = [key for key in NEEDED if key not in manifest]
    if lacking:
        raise BadInput(f"{path}: not a manifest (it lacks {', '.join(lacking)})")
    for key, declared in {**RUNS, **dict.fromkeys(AS_JSON, "table")}.items():
        if key in manifest and key not in MAY_BE_NULL and not _is(declared, manifest[key]):
            raise BadInput(f"{path}: {key} is no {_WORDS[declared]}: {manifest[key]!r:.80}")
    found = manifest["findings"]
    for one in found if isinstance(found, list) else [found]:
        if not is_finding(one):
            raise BadInput(f"{path}: findings has {one!r:.80}, which is none")
    return manifest


def _is(declared: str, value: Any) -> bool:
    """Return whether a value is of a type of a manifest."""
    if declared == "int64":
        return type(value) is int and -(2**63) <= value < 2**63
    if declared == "double":
        return type(value) in (int, float) and abs(value) < 2**63
    if declared.startswith("list<"):
        return isinstance(value, list) and all(isinstance(each, str) for each in value)
    if declared.startswith("map<"):
        inner = declared[5:-1].rpartition(", ")[2]
        return isinstance(value, dict) and all(_is(inner, each) for each in value.values())
    return isinstance(value, {"bool": bool, "table": dict}.get(declared, str))
