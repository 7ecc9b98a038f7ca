"""Draw a chain: a few events, one shortly after the other, each with a disturbance.

An event moves a role or a replica: leaderships move, a broker is away, an operator changes a
setting. A disturbance delays or drops some messages, or slows a disk, during the event: one node
receives nothing, one link is slow, one API is held. Each seed leaves out most kinds of both, so
that the others coincide more often (Groce et al., Swarm Testing, 2012). Most settings stay as they
are.

A chain ends soon after its last link: then the faults are healed and the cluster must converge.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, TypeVar

from kafkasim.scenarios.searching.chains.anchor import SEEN, Anchor, seen
from kafkasim.scenarios.searching.chains.disturbances import DISTURBANCES
from kafkasim.scenarios.searching.chains.events import EVENTS
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.chains.phases import Stretch
from kafkasim.scenarios.searching.chains.settings import SETTINGS
from kafkasim.scenarios.searching.draw_workload import permitted
from kafkasim.scenarios.searching.shapes.focus import Focus, ms

Kind = TypeVar("Kind")

MINUTES = 0.12
"""The share of chains that last about a minute; each costs as much as three others."""

LINKS_OF_A_MINUTE = (12, 16, 20)
"""How many events follow one another in a minute's run, so that no stretch of it is quiet."""

LONGEST_MS = 60_000
"""How long a chain lasts at most."""

MOST_KINDS = 3
"""So many kinds of events, and of disturbances, at most."""

STRETCHED = 0.4
"""The share of chains that stretch a phase, and strike within it (phases.py)."""

LINKS = (2, 3, 3, 4, 5)
"""How many events follow one another: most bugs need the second or the third."""


def play_chain(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Put a chain in place of the faults and operations of a drawn scenario."""
    pace = Pace(rng, mode, minute=rng.random() < MINUTES)
    focus = Focus(rng, data, mode)
    _cluster(focus, pace)
    for setting in (each for each, share in SETTINGS[mode] if rng.random() < share):
        setting(focus)
    events = some(rng, EVENTS[mode])
    disturbances = some(rng, DISTURBANCES[mode])
    at = float(rng.randrange(500, 1500))
    stretch = Stretch(focus, pace) if rng.random() < STRETCHED else None
    if stretch is not None:
        stretch.begin(focus, pace, Anchor(at))
    links = rng.choice(LINKS_OF_A_MINUTE if pace.minute else LINKS)
    for number in range(links):
        anchor = Anchor(at)
        if stretch is not None and rng.random() < 0.7:
            anchor = stretch.within()
        elif rng.random() < SEEN:
            anchor = Anchor(rng.choice((1.0, 10.0, pace.near())), seen(rng, mode))
        if rng.random() < 0.75:
            around = anchor if anchor.when else Anchor(max(50.0, at - pace.near()))
            rng.choice(disturbances)(focus, pace, around)
        rng.choice(events)(focus, pace, anchor)
        at = pace.next(at, links - number - 1)
    if stretch is not None:
        at += stretch.lasts
    rest = rng.choice((pace.fetch_ms, pace.lag_ms, pace.session_ms))
    data["duration"] = ms(min(at + min(1000 + 1.2 * rest, pace.longest_ms), LONGEST_MS))
    focus.install()
    data["expect"]["permits"] = permitted(data["workload"], _is_unclean(data))


def some(rng: random.Random, kinds: Sequence[Kind], most: int = MOST_KINDS) -> list[Kind]:
    """Draw the few kinds that this seed plays."""
    return rng.sample(kinds, rng.randrange(1, min(most, len(kinds)) + 1))


def _cluster(focus: Focus, pace: Pace) -> None:
    """Let three brokers lead and follow partitions in every order, often with nobody beside."""
    rng = focus.rng
    focus.cluster["brokers"] = brokers = rng.choice((3, 3, 3, 4, 5))
    focus.brokers = rng.sample(range(1, brokers + 1), 3)
    pace.configure(focus.cluster)
    if focus.mode == "kraft":
        focus.config["metadata.max.idle.interval.ms"] = rng.choice((100, 500))
    focus.data["topics"][0]["config"].pop("unclean.leader.election.enable", None)
    focus.assign_all_orders(rng.choice((2, 3, 3, 3)), rng.choice((1, 3, 6, 6)))
    if rng.random() < 0.7:  # otherwise the workloads that were drawn
        focus.producers()
    if pace.minute:
        focus.config["metadata.max.idle.interval.ms"] = 500


def _is_unclean(data: dict[str, Any]) -> bool:
    """Return whether the topic may elect uncleanly at any time."""
    key = "unclean.leader.election.enable"
    configs = [each.get("config", {}) for each in (*data["topics"], *data.get("operations", ()))]
    return any(config.get(key) for config in configs)
