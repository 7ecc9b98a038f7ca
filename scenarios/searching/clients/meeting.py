"""Strikes: faults of clients and their coordinators, besides the faults that a seed has already.

Faults of leaders and followers hit a coordinator only by chance, and hardly ever during a rebalance
or a transaction. So a strike begins at a fact of a transaction or a group. It hits the coordinator
of a group or a transactional id, or the host of the fact. It lasts about as long as the timers of
the clients concerned. Most strikes are followed by a second or third one.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.members import MEMBERS
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.clients.phases import stretched_once
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

MEETINGS = 0.5
"""The share of seeds in which this happens."""

OF_WRITERS = 0.8
"""The same of seeds with transactions: fewer seeds have any, and less happens to them otherwise."""

STRETCHED = 0.4
"""The share of these seeds that stretch a phase, and strike within it (phases.py)."""

FOLLOWING = (1, 2, 2, 3)
"""How many strikes follow one another: most bugs need the second or the third."""


def meetings(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Add what happens to clients to a drawn scenario, in half of the seeds."""
    if is_about_its_faults(data):
        return
    cast = Cast(rng, data, mode)
    for change, share in MEMBERS:
        if rng.random() < share:
            change(cast)
    cast = Cast(rng, data, mode)
    if rng.random() >= (OF_WRITERS if cast.writers else MEETINGS):
        return
    if rng.random() < STRETCHED:
        stretched_once(cast)
        return
    strikes = rng.sample(STRIKES, 3)
    for _ in range(rng.choice((1, 1, 2))):
        anchor = moment(rng, cast)
        delay = 0.0
        for _ in range(rng.choice(FOLLOWING)):
            rng.choice(strikes)(cast, anchor, delay)
            if rng.random() < 0.3:  # at a fact of its own, so that the two overlap in any order
                anchor, delay = moment(rng, cast), 0.0
            else:
                delay += cast.near()
