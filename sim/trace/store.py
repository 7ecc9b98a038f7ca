"""What a run leaves on disk: Parquet tables, the manifest and the wall times.

A run directory holds ``trace.parquet``, ``manifest.json`` and ``timing.json``. The manifest is
written last, under a temporary name, and then renamed: it is the commit marker, and a directory
without one is an unfinished run. Wall times are in ``timing.json`` alone, so that a repeated run
writes the same bytes everywhere else.

Strings are dictionary encoded, columns that count upwards are delta encoded, and all columns are
compressed with zstd. Statistics are kept for ``seq`` and ``t_us`` only: every row group holds every
kind of row, so that those of other columns would exclude nothing.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.model.facts import COLUMNS, FACTS, SCHEMA_VERSION

TRACE_FILE = "trace.parquet"
MANIFEST_FILE = "manifest.json"
TIMING_FILE = "timing.json"

SCHEMA_VERSION_KEY = "kafkasim.schema_version"

ROW_GROUP_ROWS = 131_072

_ARROW_TYPES: dict[str, Any] = {
    "int64": pa.int64(),
    "string": pa.string(),
    "bool": pa.bool_(),
    "list<int64>": pa.list_(pa.int64()),
    "list<string>": pa.list_(pa.string()),
}

_DELTA = {
    "seq",
    "t_us",
    "base_offset",
    "next_offset",
    "offset",
    "high_watermark",
    "position",
    "base_sequence",
    "record_ids",
    "offsets",
}
"""Columns whose values mostly rise in steps; a dictionary would be as large as the column."""

_FIELDS: dict[str, tuple[str, ...]] = {
    name: tuple(fact.__dataclass_fields__)  # type: ignore[attr-defined]
    for name, fact in FACTS.items()
}


def arrow_schema(columns: Mapping[str, str]) -> Any:
    """Return the Arrow schema of a table given as column name to type name."""
    fields = [pa.field(name, _ARROW_TYPES[declared]) for name, declared in columns.items()]
    return pa.schema(fields)


class TableWriter:
    """Streams tables into one Parquet file; the same tables give the same bytes."""

    def __init__(self, path: Path, columns: Mapping[str, str]) -> None:
        self.path = path
        self.schema = arrow_schema(columns)
        self._pending: list[Any] = []
        self._pending_rows = 0
        leaves = {name: _leaf(name, declared) for name, declared in columns.items()}
        delta = [name for name in columns if name in _DELTA]
        self._writer = pq.ParquetWriter(
            path,
            self.schema,
            compression="zstd",
            compression_level=3,
            use_dictionary=[leaves[name] for name in columns if name not in _DELTA],
            column_encoding={leaves[name]: "DELTA_BINARY_PACKED" for name in delta},
            write_statistics=[name for name in ("seq", "t_us") if name in columns],
            store_schema=False,
        )
        self._writer.add_key_value_metadata({SCHEMA_VERSION_KEY: SCHEMA_VERSION})

    def write(self, table: Any) -> None:
        """Add a table; it reaches the file once a row group is full or at :meth:`close`."""
        self._pending.append(table)
        self._pending_rows += table.num_rows
        if self._pending_rows >= ROW_GROUP_ROWS:
            self._write_group()

    def close(self) -> None:
        """Write what is pending and the footer."""
        if self._pending:
            self._write_group()
        self._writer.close()

    def _write_group(self) -> None:
        table = pa.concat_tables(self._pending)
        self._pending = []
        self._pending_rows = 0
        self._writer.write_table(table, row_group_size=ROW_GROUP_ROWS * 2)


class FactWriter:
    """Writes the table of facts from rows ``(seq, t_us, node, kind, fields)``."""

    def __init__(self, path: Path) -> None:
        self._table = TableWriter(path, COLUMNS)

    def write_rows(self, rows: Sequence[tuple[int, int, str, str, tuple[Any, ...]]]) -> None:
        """Add rows, in the order of ``seq``."""
        self._table.write(fact_table(rows, self._table.schema))

    def close(self) -> None:
        """Write what is pending and the footer."""
        self._table.close()


def fact_table(rows: Sequence[tuple[int, int, str, str, tuple[Any, ...]]], schema: Any) -> Any:
    """Convert trace rows to an Arrow table with all columns of the trace.

    The fields of one kind are converted together, column by column. A column of the wide table
    is then gathered from the kinds that have it.
    """
    places: dict[str, list[int]] = {}
    for place, row in enumerate(rows):
        if row[3] in places:
            places[row[3]].append(place)
        else:
            places[row[3]] = [place]
    parts: dict[str, dict[str, Any]] = {}
    order: list[int] = []  # the rows kind by kind
    for kind, indices in places.items():
        order += indices
        values = zip(*[rows[place][4] for place in indices])
        for name, column in zip(_FIELDS[kind], values):
            parts.setdefault(name, {})[kind] = _column(kind, name, column, schema)
    gather = pc.sort_indices(pa.array(order, pa.int32()))  # where each row is in that order
    seqs, times, nodes, kinds, _ = zip(*rows)
    columns: dict[str, Any] = {"seq": seqs, "t_us": times, "node": nodes, "kind": kinds}
    arrays = []
    for field in schema:
        name = field.name
        if name in columns:
            arrays.append(pa.array(columns[name], field.type))
        elif name not in parts:
            arrays.append(pa.nulls(len(rows), field.type))
        else:
            chunks = _with_gaps(parts[name], places, field.type)
            arrays.append(pc.take(pa.concat_arrays(chunks), gather, boundscheck=False))
    return pa.Table.from_arrays(arrays, schema=schema)


def _column(kind: str, name: str, values: tuple[Any, ...], schema: Any) -> Any:
    """Convert one field of one kind, naming it when a value has another type than declared."""
    try:
        return pa.array(values, schema.field(name).type)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise TypeError(f"{kind}.{name} must be {COLUMNS[name]}: {error}") from error


def _with_gaps(owned: dict[str, Any], places: dict[str, list[int]], arrow_type: Any) -> list[Any]:
    """Return a column's arrays kind by kind, with nulls for the kinds that lack it."""
    chunks = []
    missing = 0
    for kind, indices in places.items():
        if kind in owned:
            if missing:
                chunks.append(pa.nulls(missing, arrow_type))
                missing = 0
            chunks.append(owned[kind])
        else:
            missing += len(indices)
    if missing:
        chunks.append(pa.nulls(missing, arrow_type))
    return chunks


def _leaf(name: str, declared: str) -> str:
    """Return the Parquet path of a column: a list's values lie below it."""
    return f"{name}.list.element" if declared.startswith("list<") else name


# ------------------------------------------------------------------------------------- manifest


class ManifestError(Exception):
    """A run directory has no usable manifest."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


MANIFEST_KEYS = (
    "scenario",
    "seed",
    "variants",
    "code_version",
    "config_digest",
    "schema_version",
    "rows",
    "digest",
    "reason",
)
"""The keys of every manifest; a run adds those of its verdict (claim, permits and others)."""


_MANIFEST_TYPES: dict[str, type] = {
    "scenario": str, "seed": int, "variants": list, "code_version": str, "config_digest": str,
    "rows": int, "digest": str, "reason": str, "ready_us": int, "topics": dict, "verdict": str,
    "spec": dict, "permits": list, "anomalies": list, "expected": list, "losses": list,
    "offsets_partitions": list, "stall_excuse": str, "missing": list, "observations": dict,
    "violations": list, "delivery": list,
}  # fmt: skip


def write_manifest(directory: Path, manifest: Mapping[str, Any]) -> None:
    """Commit a run: write its manifest, last of all files.

    Raises:
        ValueError: a key of ``MANIFEST_KEYS`` is missing.
    """
    missing = [key for key in MANIFEST_KEYS if key not in manifest]
    if missing:
        raise ValueError(f"the manifest lacks {', '.join(missing)}")
    _write_atomically(directory / MANIFEST_FILE, _json(manifest))


def read_manifest(directory: Path | str) -> dict[str, Any]:
    """Return the manifest of a run directory.

    Raises:
        ManifestError: the manifest is missing, no JSON, incomplete, or of another schema version.
    """
    path = Path(directory) / MANIFEST_FILE
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(str(path), "no such file: the run never finished") from None
    except OSError as error:
        raise ManifestError(str(path), f"cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise ManifestError(str(path), f"is no JSON: {error}") from None
    if not isinstance(manifest, dict):
        raise ManifestError(str(path), "is no JSON object")
    missing = [key for key in MANIFEST_KEYS if key not in manifest]
    if missing:
        raise ManifestError(str(path), f"lacks {', '.join(missing)}")
    found = manifest["schema_version"]
    if found != SCHEMA_VERSION:
        raise ManifestError(str(path), f"has schema version {found}, this code {SCHEMA_VERSION}")
    for key, kind in _MANIFEST_TYPES.items():
        if key in manifest and not isinstance(manifest[key], kind):
            raise ManifestError(str(path), f"{key} is no {kind.__name__}: {manifest[key]!r:.80}")
    for key in ("seed", "rows", "ready_us"):
        if not 0 <= manifest.get(key, 0) < 2**63 or isinstance(manifest.get(key), bool):
            raise ManifestError(str(path), f"{key} is no count of 64 bits: {manifest[key]!r:.80}")
    if not all(isinstance(each, str) for each in manifest["variants"]):
        raise ManifestError(str(path), "variants is no list of names")
    return manifest


def write_timing(directory: Path, timing: Mapping[str, Any]) -> None:
    """Write the wall times of a run, which differ when it is repeated."""
    _write_atomically(directory / TIMING_FILE, _json(timing))


def config_digest(configuration: Any) -> str:
    """Return a digest of a configuration made of JSON values, whatever the order of its keys."""
    text = json.dumps(configuration, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


@functools.cache
def code_version() -> str:
    """Return a digest of the sources that decide what a run does: model, sim, scenarios."""
    return sources_digest(files("kafkasim"), ("model", "sim", "scenarios"))


def sources_digest(root: Traversable, packages: Iterable[str]) -> str:
    """Return a digest of the names and contents of Python and TOML files below ``root``.

    The root may lie in an archive, as on an executor that was given a wheel.
    """
    digest = hashlib.sha256()
    for package in packages:
        if not (root / package).is_dir():
            continue
        for name, source in _sources(root / package, package):
            content = hashlib.sha256(source.read_bytes()).hexdigest()
            digest.update(f"{name} {content}\n".encode())
    return digest.hexdigest()[:16]


def _sources(directory: Traversable, name: str) -> Iterator[tuple[str, Traversable]]:
    for each in sorted(directory.iterdir(), key=lambda each: each.name):
        inner = f"{name}/{each.name}"
        if each.is_dir():
            yield from _sources(each, inner)
        elif each.name.endswith((".py", ".toml")):
            yield inner, each


def _json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, indent=2, sort_keys=True, ensure_ascii=False) + "\n"


def _write_atomically(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8", newline="\n")
    os.replace(temporary, path)
