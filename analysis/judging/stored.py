"""From the Arrow table of a stored run to its facts, as ``courts.py:judge_stored`` takes them."""

from __future__ import annotations

from operator import itemgetter
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkasim.model.facts import COLUMNS, FACTS

_FIELDS = {kind: tuple(made.__dataclass_fields__) for kind, made in FACTS.items()}  # type: ignore[attr-defined]
_LISTS = {name for name, declared in COLUMNS.items() if declared.startswith("list")}


def facts_of(table: pa.Table) -> list[tuple[int, int, str, Any]]:
    """Return the facts of one run in the order of ``seq``: seq, time in µs, node, fact.

    ``table`` has the columns of the trace, or more; rows of unknown kinds are left out.
    """
    rows: list[tuple[int, int, str, Any]] = []
    kinds = table.column("kind")
    for kind in pc.unique(kinds).to_pylist():
        if kind in FACTS:
            rows += facts_of_kind(kind, table.filter(pc.equal(kinds, kind)))
    rows.sort(key=itemgetter(0))
    return rows


def columns_of(kind: str) -> list[str]:
    """Return the columns of the trace that facts of a kind are made from."""
    return ["seq", "t_us", "node", *_FIELDS[kind]]


def facts_of_kind(kind: str, table: pa.Table) -> list[tuple[int, int, str, Any]]:
    """Return the facts of one kind and run from rows with at least :func:`columns_of` it."""
    columns = []
    for name in _FIELDS[kind]:
        values = table.column(name).to_pylist()
        columns.append([tuple(value) for value in values] if name in _LISTS else values)
    made = FACTS[kind]
    told = map(made, *columns) if columns else (made() for _ in range(table.num_rows))
    heads = [table.column(name).to_pylist() for name in ("seq", "t_us", "node")]
    return list(zip(*heads, told, strict=True))
