"""Encounters of clients: those that the swarm has, too.

A client is struck at a step of its protocol (seldom/steps.py), a phase is stretched
(clients/phases.py), somebody is struck at a moment (clients/moments.py).
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from kafkasim.scenarios.searching.about.episodes import repeat
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.clients.phases import stretched
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.seldom.steps import strike_at_a_step


def struck(cast: Cast) -> None:
    """One to three strikes at a moment of a client's protocol."""
    anchor, delay = moment(cast.rng, cast), 0.0
    for _ in range(cast.rng.choice((1, 1, 2, 3))):
        cast.rng.choice(STRIKES)(cast, anchor, delay)
        delay += cast.near()


ENCOUNTERS: tuple[Callable[[Cast], None], ...] = (strike_at_a_step, stretched, struck)


def strike_clients(cast: Cast, duration: float, scale: float = 1) -> None:
    """Let a few encounters of clients fill ``duration`` ms (episodes.py)."""
    tables = [cast.data["faults"], cast.data["operations"]]
    repeat(cast.rng, [partial(_meet, cast, each) for each in ENCOUNTERS], tables, duration, scale)


def _meet(cast: Cast, encounter: Callable[[Cast], None], rng: random.Random) -> None:
    drawn, cast.rng = cast.rng, rng
    encounter(cast)
    cast.rng = drawn
