"""The chain of a transaction whose marker was lost, and whose record has the id of its input."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from kafkasim.analysis.explain.facts import Facts
from kafkasim.analysis.explain.transactions import hanging
from kafkasim.model import facts
from kafkasim.model.facts import COLUMNS

INPUT, OUTPUT = ("orders", 0), ("outputs", 0)
RECORD = 7
ROWS = [
    ("producer-1", facts.TransactionBegun("writer", 2, 1, 0)),
    ("producer-1", facts.TransactionSent("writer", 2, *INPUT, RECORD)),
    ("processor-1", facts.TransactionBegun("copier", 5, 1000, 0)),
    ("processor-1", facts.TransactionSent("copier", 5, *OUTPUT, RECORD)),
    ("broker-1", facts.Appended(*OUTPUT, 3, 7, 8, 1000, 0, 5, (RECORD,))),
    ("broker-1", facts.MarkerWritten(*OUTPUT, 1000, 0, True, 8, 3, 0)),
]
CUT = ("broker-1", facts.Truncated(*OUTPUT, 5, 9, 8))


def stored(rows: list[tuple[str, Any]]) -> Facts:
    """Return the facts of a run whose trace has these rows only."""
    found = Facts.__new__(Facts)
    found._kinds, found.topics = {}, {}
    table = [
        {
            "seq": seq, "t_us": seq, "node": node, "kind": type(fact).__name__,
            **{name: getattr(fact, name) for name in fact.__dataclass_fields__},
        }
        for seq, (node, fact) in enumerate(rows)
    ]  # fmt: skip
    found._table = pa.Table.from_pylist(
        [
            {name: row.get(name) for name in ("seq", "t_us", "node", "kind", *COLUMNS)}
            for row in table
        ]
    )
    return found


FOUND = {"record_id": RECORD, "group": "", "offset": 7, "seq": -1}


def test_a_transaction_is_that_of_the_output_and_not_of_the_input() -> None:
    chain = hanging(stored(ROWS), OUTPUT, FOUND)
    assert [row["transactional_id"] for row in chain.rows.values() if "number" in row] == [
        "copier", "copier",
    ]  # fmt: skip
    assert (chain.turn, chain.conclusion[:21]) == (4, "no marker follows it,")


def test_a_transaction_hangs_because_its_leader_lost_its_marker() -> None:
    chain = hanging(stored([*ROWS, CUT]), OUTPUT, FOUND)
    assert chain.turn == len(ROWS)
    told = (
        "its marker at offset 8 is cut, and no other follows, so the last stable offset stays here"
    )
    assert chain.conclusion == told
