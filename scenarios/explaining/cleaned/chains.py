"""The chains of what log cleaners have removed, and of what they have kept."""

from __future__ import annotations

from typing import Any

from kafkasim.scenarios.explaining.chain import Chain
from kafkasim.scenarios.explaining.facts import END, Facts, Key
from kafkasim.scenarios.showing.state import Row

Found = dict[str, Any]

RECENT = 8
"""How many earlier cleanings are told."""


def removes(row: Row, offset: int) -> bool:
    """Return whether a cleaning has removed the record at an offset."""
    ranges = row["removed"]
    return any(low <= offset < high for low, high in zip(ranges[::2], ranges[1::2], strict=True))


def removed(facts: Facts, key: Key, row: Row) -> Chain:
    """Return the cleanings of a log up to the one that removed too much (LATEST)."""
    chain = Chain()
    chain.add(*facts.rows(["Cleaned"], key, node=row["node"], before=row["seq"])[-RECENT:], row)
    chain.turns(
        row,
        f"this cleaning knew the keys from offset {row['dirty_offset']} to"
        f" {row['mapped_offset'] - 1}: only a later record of the same key there lets a record go,"
        f" and a deletion also has to be older than delete.retention.ms"
        f" ({row['delete_retention_ms']} ms)",
    )
    return chain


def kept(facts: Facts, key: Key, row: Row) -> Chain:
    """Return a deletion that a cleaning left in the log, and who met it before (HORIZON)."""
    chain = Chain()
    for earlier in _meetings(facts, key, row["seq"], node=row["node"]):
        horizon_ms = earlier["began_ms"] + earlier["delete_retention_ms"]
        if horizon_ms > row["began_ms"]:
            continue
        for offset, told in _deletions(facts, key, row["seq"]).items():
            if _covers(earlier, offset) and _covers(row, offset) and not removes(row, offset):
                chain.add(told, earlier)
                chain.turns(
                    row,
                    f"this cleaning began {row['began_ms'] - horizon_ms} ms behind the delete"
                    f" horizon of the deletion at offset {offset}, and left it in the log",
                )
                return chain
    chain.turns(row, "")
    return chain


def lost_deletion(facts: Facts, key: Key, found: Found) -> Chain:
    """Return how a tombstone came and went before a group got there."""
    chain = Chain()
    offset, poll = found["offset"], facts.row(found["seq"])
    met = _meetings(facts, key, poll["seq"], offset=offset)
    gone = next((row for row in met if removes(row, offset)), None)
    chain.add(_deletions(facts, key, poll["seq"]).get(offset), *met[:1], poll)
    if gone is not None:
        chain.turns(
            gone,
            f"this cleaning began {gone['began_ms'] - met[0]['began_ms']} ms after the first one"
            f" that met the deletion at offset {offset}, which had to stay for"
            f" {met[0]['delete_retention_ms']} ms",
        )
    return chain


def _deletions(facts: Facts, key: Key, before: int) -> dict[int, Row]:
    """Return the rows that appended tombstones, by offset."""
    rows = facts.rows(["KeysAppended"], key, before=before)
    return {offset: row for row in rows for offset in row["tombstones"]}


def _meetings(
    facts: Facts, key: Key, before: int = END, offset: int | None = None, **equal: Any
) -> list[Row]:
    """Return the cleanings that copied or removed the record at an offset."""
    return facts.rows(
        ["Cleaned"], key, before=before,
        where=lambda row: offset is None or _covers(row, offset), **equal,
    )  # fmt: skip


def _covers(row: Row, offset: int) -> bool:
    return bool(row["base_offset"] <= offset < row["next_offset"])
