"""Episodes: a few encounters with the protocols, one after the other, until the end of the run.

The swarm has one or two encounters in a run. Whether one does harm depends on what came before it:
on a transaction that has just been aborted, on a member that has just got a new id. Here a seed
draws a few encounters and repeats them, each some timers of the cluster after the last one. An
encounter that comes again keeps its faults; their times, and what they wait for, vary. Its triggers
count from its own beginning.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.shapes.focus import ms

Tables = list[dict[str, Any]]

Encounter = Callable[[random.Random], None]
"""Adds faults and operations, whose times count from the beginning of the episode."""

FIRST_MS = 1000
"""When the first episode begins: the clients have found their coordinators by then."""

LAST = 0.85
"""The share of the run after which none begins."""

SPACING_MS = (700, 1500, 3000)
"""How far apart episodes begin: some overlap, and some meet a cluster that has recovered."""

COUNTS = (1, 1, 1, 2, 3, 5, 8)
"""Which matching fact of its episode a trigger waits for."""

REPEATED = (1, 2, 3)
"""How many encounters a seed repeats: the fewer there are, the more often two of them meet."""


def repeat(
    rng: random.Random,
    encounters: Sequence[Encounter],
    tables: Sequence[Tables],
    duration: float,
    scale: float = 1,
) -> None:
    """Fill ``duration`` ms with a few of the encounters, each of them again and again.

    ``tables`` are the faults and the operations of the scenario. ``scale`` is how much longer the
    timers are than a few seconds.
    """
    repeated = [(rng.choice(encounters), rng.random()) for _ in range(rng.choice(REPEATED))]
    begins = FIRST_MS * scale
    while begins < duration * LAST:
        known = [len(table) for table in tables]
        encounter, number = rng.choice(repeated)
        encounter(random.Random(number))
        longer = 2 ** rng.uniform(-1.5, 1.5)
        counts: dict[str, int] = {}  # what waits for one fact begins with it
        for table, count in zip(tables, known, strict=True):
            for each in table[count:]:
                if "when" in each:
                    nth = counts.setdefault(str(each["when"]), rng.choice(COUNTS))
                    each["when"] = {**each["when"], "after": ms(begins), "count": nth}
                _begin_later(each, begins, longer, duration)
        begins += rng.uniform(0.5, 1.5) * rng.choice(SPACING_MS) * scale


def _begin_later(each: dict[str, Any], begins: float, longer: float, duration: float) -> None:
    """Let the times of a fault or an operation be ``longer`` by so much.

    If it waits for no fact, they count from ``begins`` ms on.
    """
    at = longer * duration_us(each.get("at", "0ms")) / 1000
    if "when" not in each:
        at += begins
    each["at"] = ms(min(at, duration - 1))
    if isinstance(each.get("for"), str):
        each["for"] = ms(longer * duration_us(each["for"]) / 1000)
