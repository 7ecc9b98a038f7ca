"""Encounters of clients: three that the swarm has, too, and two of this search alone.

A client is struck at a step of its protocol (seldom/steps.py), a phase is stretched
(clients/phases.py), somebody is struck at a moment (clients/moments.py). Here alone, a server that
clients use is cut from the other servers, or sleeps while another one takes its place.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from kafkasim.scenarios.searching.about.episodes import repeat
from kafkasim.scenarios.searching.clients.cast import NETWORK_MS, Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.clients.phases import stretched
from kafkasim.scenarios.searching.clients.strikes import AMONG_BROKERS, STRIKES
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
    cluster = cast.data["cluster"]
    quorum = "zookeeper" if cast.mode == "zookeeper" else "controller"
    others = [f"{quorum}-{n + 1}" for n in range(cluster[f"{quorum}s"])]
    cast.data["faults"].append({
        "kind": "partition", **moment(cast.rng, cast).at(), "guarded": True,
        "node": _server(cast), "peers": [*cast.brokers, *others], "for": ms(2 * cast.away()),
    })  # fmt: skip


def overtaken(cast: Cast) -> None:
    """A coordinator or a leader sleeps until another one has its place, and then it is heard again.

    What it had sent to brokers, or answered to clients, is later still: the epochs in it are old.
    """
    rng, faults, config = cast.rng, cast.data["faults"], cast.data["cluster"]["config"]
    session = config.get("zookeeper.session.timeout.ms", config["broker.session.timeout.ms"])
    begins, node, asleep = moment(rng, cast), _server(cast), session * rng.uniform(1.0, 3.0)
    hold = {"kind": "hold", **begins.at(), "node": node, "for": ms(asleep + cast.away())}
    if cast.writers and rng.random() < 0.7:
        asked = {"api": rng.choice(AMONG_BROKERS), "direction": "request"}
        faults.append({**hold, "peers": list(cast.brokers), **asked})
    else:
        served = rng.choice([*cast.groups, *cast.writers])
        faults.append({**hold, "peers": cast.hosts(served), "direction": "response"})
    sleeps = begins.at(rng.uniform(0.1, 2.0) * NETWORK_MS)
    faults.append({"kind": "gc-pause", **sleeps, "node": node, "guarded": True, "for": ms(asleep)})


def _server(cast: Cast) -> str:
    """Return the leader of a partition, or the coordinator of somebody."""
    topic = cast.data["topics"][0]
    leader = f"leader:{topic['name']}-{cast.rng.randrange(topic['partitions'])}"
    return cast.rng.choice((leader, cast.coordinator()))


ENCOUNTERS: tuple[Callable[[Cast], None], ...] = (
    strike_at_a_step, stretched, struck, cut_from_servers, overtaken
)  # fmt: skip


def strike_clients(cast: Cast, duration: float, scale: float = 1) -> None:
    """Let a few encounters of clients fill ``duration`` ms (episodes.py)."""
    tables = [cast.data["faults"], cast.data["operations"]]
    repeat(cast.rng, [partial(_meet, cast, each) for each in ENCOUNTERS], tables, duration, scale)


def _meet(cast: Cast, encounter: Callable[[Cast], None], rng: random.Random) -> None:
    drawn, cast.rng = cast.rng, rng
    encounter(cast)
    cast.rng = drawn
