"""Draw faults for a user's scenario, from the same events as for drawn clusters.

A plan is a few links, one shortly after the other (chains/chain.py). A link is an event of the
servers (a broker, a leader or a controller is away, or an operator restarts some), a disturbance (a
link, an API or a disk is slow or cut off), or a strike at a client or coordinator
(clients/strikes.py). Gaps and durations are parts and small multiples of the scenario's timers. So
a run must last for a few of them: a minute or two with Kafka's defaults.

The cluster and the clients stay as they are, with the scenario's own faults and operations. No
drawn operation changes a setting, a topic or the records in it. Of the table ``expect`` only
``permits`` is kept: the rest (``must-see``, ``in-time``, ``within``…) is about the scenario's own
faults. Faults that lose data on a disk are guarded: they stay within the no-loss budget. So a
failure comes from the scenario's configuration, and not from faults that Kafka does not promise to
survive.
"""

from __future__ import annotations

import random
from collections.abc import Collection

from kafkasim.scenarios.language.files.data import Data, as_data
from kafkasim.scenarios.language.nodes import candidates, node_names
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.chains.anchor import Anchor, seen
from kafkasim.scenarios.searching.chains.chain import some
from kafkasim.scenarios.searching.chains.disturbances import (
    DISTURBANCES,
    Disturbance,
    cut_from_one,
    deaf,
    late_replication,
    sides,
    slow_link,
)
from kafkasim.scenarios.searching.chains.events import (
    GONE,
    Event,
    broker_away,
    broker_restarts,
    brokers_away,
    client_away,
    controller_away,
    coordinator_away,
)
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.choices.effects import within_reach
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.clients.strikes import STRIKES
from kafkasim.scenarios.searching.draw_faults import lost_replies
from kafkasim.scenarios.searching.given_scene import scene
from kafkasim.scenarios.searching.shapes.focus import Focus, ms

LINKS = (1, 2, 3, 3, 4, 5)
"""How many links a plan has."""

SEEN = 0.5
"""The share of links that wait for a fact."""

MOST_KINDS = 4
"""A plan has so many kinds of events, disturbances and strikes at most, so that they meet."""

ATTEMPTS = 1000
"""How many plans are drawn for a seed until one has a fault of the wanted kinds."""

BETWEEN: tuple[Disturbance, ...] = (late_replication, deaf, cut_from_one, sides, slow_link)
"""Disturbances between two brokers."""

KINDS = (
    "gc-pause", "crash", "power-loss", "stop", "isolate", "restart", "rolling-restart",
    "elect-leader", "partition", "partition-oneway", "cut-purpose", "reset", "half-open", "hold",
    "slow-link", "flaky", "slow-disk", "disk-stall", "clock-step",
)  # fmt: skip
"""The kinds of faults and operations that plans have."""


def with_faults(scenario: Scenario, seed: int, only: Collection[str] = ()) -> Scenario:
    """Return a scenario with the faults and operations that a seed draws for it, beside its own.

    With ``only`` they are of these kinds.

    Raises:
        ValueError: the scenario has no topic, or no plan for it has a fault of these kinds.
    """
    if not scenario.topics:
        raise ValueError(f"{scenario.name}: topics is empty; give at least one")
    rng = random.Random(f"given/{seed}")
    for _ in range(ATTEMPTS):
        plan = Plan(rng, scenario)
        plan.play()
        added = {key: plan.kept(key, only) for key in ("faults", "operations")}
        if any(added.values()):
            break
    else:
        raise ValueError(f"none of {ATTEMPTS} plans for {scenario.name} has a {' or '.join(only)}")
    data = as_data(scenario)
    data.pop("twin", None)
    data["expect"] = {"permits": scenario.expect.permits}
    for key, drawn in added.items():
        if drawn:
            data[key] = [*data.get(key, []), *drawn]
    return parse(data, scenario.name)


class Plan:
    """The faults and operations of one seed, in the making."""

    def __init__(self, rng: random.Random, scenario: Scenario) -> None:
        self._rng = rng
        self._scene = scene(scenario)
        self._mode = scenario.cluster.mode
        self._duration_us = scenario.duration
        self._nodes = node_names(scenario)
        self._combined = scenario.cluster.combined
        config = self._scene["cluster"]["config"]
        self._pace = Pace.of(rng, self._mode, config, scenario.duration / 1000)
        self._focus = Focus.beside(rng, self._scene, self._mode)
        self._cast = Cast(rng, self._scene, self._mode, self._pace.longest_ms)
        self._topic = rng.choice(self._scene["topics"])

    def play(self) -> None:
        """Draw the links, and mostly no more kinds of them than can meet."""
        rng, pace = self._rng, self._pace
        events = some(rng, self._events(), MOST_KINDS)
        disturbances = some(rng, self._disturbances(), MOST_KINDS)
        strikes = some(rng, STRIKES, MOST_KINDS)
        at = rng.uniform(0.02, 0.4) * pace.end_ms
        links = rng.choice(LINKS)
        for number in range(links):
            anchor = self._anchor(at)
            which = rng.random()
            if which < 0.4:
                rng.choice(events)(self._focus, pace, anchor)
            elif which < 0.7 or not self._scene["workload"]:
                rng.choice(disturbances)(self._focus, pace, anchor)
            else:
                rng.choice(strikes)(self._cast, anchor, 0.0)
            at = pace.next(at, links - number - 1)
        lost_replies(rng, self._scene)
        within_reach(rng, self._scene)

    def kept(self, key: str, only: Collection[str]) -> list[Data]:
        """Return the drawn faults or operations that can happen, of the kinds in ``only``."""
        return [
            each
            for each in self._scene[key]
            if self._can_happen(each) and (not only or each["kind"] in only)
        ]

    def _events(self) -> list[Event]:
        events: list[Event] = [
            broker_away,
            broker_restarts,
            controller_away,
            client_away,
            self._leader_away,
        ]
        if len(self._focus.brokers) > 1:
            events.append(brokers_away)
        if any("group" in each for each in self._scene["workload"]):
            events.append(coordinator_away)
        return events

    def _leader_away(self, _: Focus, pace: Pace, anchor: Anchor) -> None:
        """Who leads or follows a partition then goes away; so does, perhaps, the next leader."""
        rng, topic = self._rng, self._topic
        partition = f"{topic['name']}-{rng.randrange(topic['partitions'])}"
        follows = topic["replication-factor"] > 1 and rng.random() < 0.3
        role = f"{'follower' if follows else 'leader'}:{partition}"
        self._goes_away(role, anchor.at())
        if rng.random() < 0.4:
            self._goes_away(f"leader:{partition}", anchor.at(pace.near()))

    def _goes_away(self, role: str, begins: Data) -> None:
        kind, lasts = self._rng.choice(GONE), ms(self._pace.away())
        self._focus.faults.append(
            {"kind": kind, **begins, "for": lasts, "node": role, "guarded": True}
        )

    def _disturbances(self) -> list[Disturbance]:
        alone = len(self._focus.brokers) == 1
        return [each for each in DISTURBANCES[self._mode] if not alone or each not in BETWEEN]

    def _anchor(self, at: float) -> Anchor:
        """Draw when a link begins: at a time, or shortly after a fact of the servers or clients."""
        rng = self._rng
        if rng.random() >= SEEN:
            return Anchor(at)
        if self._scene["workload"] and rng.random() < 0.5:
            return moment(rng, self._cast)
        after = rng.choice((1.0, 10.0, self._pace.near()))
        return Anchor(after, seen(rng, self._mode, self._topic["name"]))

    def _can_happen(self, each: Data) -> bool:
        """Return whether somebody is hit, and before the faults are healed."""
        if "when" not in each and _begins_us(each) >= self._duration_us:
            return False
        names = [each.get("node"), *each.get("nodes", ()), *each.get("peers", ())]
        chosen = [name for name in names if name is not None and name.startswith("any-")]
        return all(candidates(name, self._nodes, self._combined) for name in chosen)


def _begins_us(each: Data) -> int:
    """Return when a fault begins at the earliest, in µs."""
    at = each.get("at", "0ms")
    return duration_us(at[0] if isinstance(at, list) else at)
