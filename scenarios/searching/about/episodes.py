"""Episodes: encounters with the protocols of clients, one after the other, until the end.

The swarm has one or two encounters in a run. Whether one does harm depends on what came before it:
on a transaction that has just been aborted, on a member that has just got a new id. Here each
encounter is followed by the next one within a few of the clients' own timers. It is one of those
that the swarm has, too: a client is struck at a step of its protocol (seldom/steps.py), a phase is
stretched (clients/phases.py), somebody is struck at a moment (clients/moments.py). Its triggers
count from its own beginning.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.clients.phases import stretched
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.seldom.steps import strike_at_a_step
from kafkasim.scenarios.searching.shapes.focus import ms

Encounter = Callable[[Cast], None]
"""Adds faults and operations, whose times count from the beginning of the episode."""

FIRST_MS = 1000
"""When the first episode begins: the clients have found their coordinators by then."""

SPACING_MS = (700, 1500, 3000)
"""How far apart episodes begin: some overlap, and some meet clients that have recovered."""

COUNTS = (1, 1, 1, 2, 3, 5, 8)
"""Which matching fact of its episode a trigger waits for."""

REPEATED = (1, 2, 3)
"""How many encounters a seed repeats: the fewer there are, the more often two of them meet."""


def struck(cast: Cast) -> None:
    """One to three strikes at a moment of a client's protocol."""
    anchor, delay = moment(cast.rng, cast), 0.0
    for _ in range(cast.rng.choice((1, 1, 2, 3))):
        cast.rng.choice(STRIKES)(cast, anchor, delay)
        delay += cast.near()


ENCOUNTERS: tuple[Encounter, ...] = (strike_at_a_step, stretched, struck)


def play_episodes(cast: Cast, duration: float, scale: float = 1) -> None:
    """Fill ``duration`` ms of a scenario with a few encounters, each of them again and again.

    An encounter that is repeated keeps its faults; their times and what they wait for vary.
    ``scale`` is how much longer the clients' timers are than a few seconds.
    """
    rng, data = cast.rng, cast.data
    repeated = [(rng.choice(ENCOUNTERS), rng.random()) for _ in range(rng.choice(REPEATED))]
    begins = FIRST_MS * scale
    while begins < duration * 0.85:
        known = {key: len(data.setdefault(key, [])) for key in ("faults", "operations")}
        encounter, number = rng.choice(repeated)
        cast.rng = random.Random(number)
        encounter(cast)
        cast.rng = rng
        longer = 2 ** rng.uniform(-1.5, 1.5)
        for key, count in known.items():
            for each in data[key][count:]:
                _begin_later(rng, each, begins, longer, duration)
        begins += rng.uniform(0.5, 1.5) * rng.choice(SPACING_MS) * scale


def _begin_later(
    rng: random.Random, each: dict[str, Any], begins: float, longer: float, duration: float
) -> None:
    """Let a fault or an operation, and what it waits for, count from ``begins`` ms on.

    Its times are ``longer`` by so much.
    """
    at = longer * duration_us(each.get("at", "0ms")) / 1000
    if "when" in each:
        each["when"] = {**each["when"], "after": ms(begins), "count": rng.choice(COUNTS)}
    else:
        at = min(begins + at, duration - 1)
    each["at"] = ms(at)
    if isinstance(each.get("for"), str):
        each["for"] = ms(longer * duration_us(each["for"]) / 1000)
