"""The Parquet table of a trace. Only a run that stores its trace imports this module, and Arrow.

Strings are dictionary encoded, columns that count upwards are delta encoded, and all columns are
compressed with zstd. Statistics are kept for ``seq`` and ``t_us`` only: every row group holds every
kind of row, so that those of other columns would exclude nothing. In the files of a fleet, where
several runs lie together, the run has some too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.model.facts import COLUMNS, FACTS, SCHEMA_VERSION

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

HEAD = ("seq", "t_us", "node")
"""The columns that every fact has besides its kind."""

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
            write_statistics=[name for name in ("run", "seq", "t_us") if name in columns],
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


def kind_tables(rows: Sequence[tuple[int, int, str, str, tuple[Any, ...]]]) -> dict[str, Any]:
    """Convert trace rows to an Arrow table for each kind: seq, t_us, node, the kind's fields."""
    mine: dict[str, list[tuple[int, int, str, str, tuple[Any, ...]]]] = {}
    for row in rows:
        if row[3] in mine:
            mine[row[3]].append(row)
        else:
            mine[row[3]] = [row]
    tables = {}
    for kind, its in mine.items():
        schema = arrow_schema({name: COLUMNS[name] for name in (*HEAD, *_FIELDS[kind])})
        seqs, times, nodes, _, values = zip(*its)
        arrays = [pa.array(seqs), pa.array(times), pa.array(nodes)]
        columns = zip(_FIELDS[kind], zip(*values))
        arrays += [_column(kind, name, column, schema) for name, column in columns]
        tables[kind] = pa.Table.from_arrays(arrays, schema=schema)
    return tables


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
