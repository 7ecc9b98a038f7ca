"""The facts of compacted topics as sentences, with the sections of KAFKA.md behind them."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.scenarios.explaining.facts import Facts
from kafkasim.scenarios.showing.state import Row

Said = tuple[str, str]

SHOWN = 4
"""How many keys a sentence names."""


def _keys(facts: Facts, row: Row) -> Said:
    named = [
        f"{name} (deleted) at {offset}" if offset in row["tombstones"] else f"{name} at {offset}"
        for offset, name in enumerate(row["keys"], row["base_offset"])
    ]
    more = f" and {len(named) - SHOWN} more" if len(named) > SHOWN else ""
    place = facts.name((row["topic_id"], row["partition"]))
    return f"{row['node']} appends to {place}: {', '.join(named[:SHOWN])}{more}", "1.7"


def _cleaned(facts: Facts, row: Row) -> Said:
    ranges = zip(row["removed"][::2], row["removed"][1::2])
    count = sum([high - low for low, high in ranges])
    place = facts.name((row["topic_id"], row["partition"]))
    return (
        f"{row['node']} cleans {place}: {count} records from offset {row['base_offset']} to"
        f" {row['next_offset']} are removed"
    ), "5"


def _failed(facts: Facts, row: Row) -> Said:
    place = facts.name((row["topic_id"], row["partition"]))
    return f"{row['node']} gives up the cleaning of {place}: {row['reason']}", "5"


WORDS: dict[str, Callable[[Facts, Row], Said]] = {
    "KeysAppended": _keys,
    "Cleaned": _cleaned,
    "CleaningFailed": _failed,
}
"""The kind of a fact to what it says, and the section."""
