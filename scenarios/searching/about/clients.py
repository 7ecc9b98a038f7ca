"""Encounters of clients: those that the swarm has, too.

A client is struck at a step of its protocol (seldom/steps.py), a phase is stretched
(clients/phases.py), somebody is struck at a moment (clients/moments.py). A server that clients use
is cut from the other servers.
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
from kafkasim.scenarios.searching.shapes.focus import ms


def struck(cast: Cast) -> None:
    """One to three strikes at a moment of a client's protocol."""
    anchor, delay = moment(cast.rng, cast), 0.0
    for _ in range(cast.rng.choice((1, 1, 2, 3))):
        cast.rng.choice(STRIKES)(cast, anchor, delay)
        delay += cast.near()


def cut_from_servers(cast: Cast) -> None:
    """A coordinator or the leader of a partition is cut from the servers that clients still reach.

    It goes on by what it knows, and clients go on with it.
    """
    rng, cluster, topic = cast.rng, cast.data["cluster"], cast.data["topics"][0]
    leader = f"leader:{topic['name']}-{rng.randrange(topic['partitions'])}"
    quorum = "zookeeper" if cast.mode == "zookeeper" else "controller"
    others = [f"{quorum}-{n + 1}" for n in range(cluster[f"{quorum}s"])]
    cast.data["faults"].append({
        "kind": "partition", **moment(rng, cast).at(), "guarded": True,
        "node": rng.choice((leader, cast.coordinator())), "peers": [*cast.brokers, *others],
        "for": ms(2 * cast.away()),
    })  # fmt: skip


ENCOUNTERS: tuple[Callable[[Cast], None], ...] = (
    strike_at_a_step, stretched, struck, cut_from_servers
)  # fmt: skip


def strike_clients(cast: Cast, duration: float, scale: float = 1) -> None:
    """Let a few encounters of clients fill ``duration`` ms (episodes.py)."""
    tables = [cast.data["faults"], cast.data["operations"]]
    repeat(cast.rng, [partial(_meet, cast, each) for each in ENCOUNTERS], tables, duration, scale)


def _meet(cast: Cast, encounter: Callable[[Cast], None], rng: random.Random) -> None:
    drawn, cast.rng = cast.rng, rng
    encounter(cast)
    cast.rng = drawn
