"""Stretch phases of servers: hold the one message that would end the phase.

A leader waits for the response to AlterPartition, a reassignment for the fetches of a new replica,
a new controller for its first requests to arrive. Such a phase lasts milliseconds, so hardly any
event happens within it. A chain that stretches a phase begins with the cause of the phase. Then the
message is held for a while, and most of the next links begin in that time.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkasim.scenarios.searching.chains import disturbances as spoil
from kafkasim.scenarios.searching.chains import events
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.draw_faults import METADATA_PURPOSE
from kafkasim.scenarios.searching.shapes.focus import TOPIC, Focus, ms


@dataclass(frozen=True)
class Phase:
    """What brings a phase about, the fact that begins it, and the message that ends it.

    ``messages`` are keys of a fault ``hold``; a direction is drawn unless they name one. The
    messages are held at the fact's host (``@node``), at one broker, or at the controller.
    """

    causes: tuple[events.Event, ...]
    fact: dict[str, Any]
    node: str
    messages: tuple[dict[str, Any], ...]


def _changed(reason: str) -> dict[str, Any]:
    return {"fact": "PartitionChanged", "fields": {"topic": TOPIC, "reason": reason}}


AWAY = (events.broker_away, events.leader_away, events.broker_restarts)
LAGGING = (spoil.late_replication, spoil.cut_from_one, spoil.deaf)

PROPOSING = Phase(
    (*AWAY, *LAGGING), {"fact": "IsrProposed", "fields": {"topic": TOPIC}}, "@node",
    ({"api": "AlterPartition"},),
)  # fmt: skip
REASSIGNING = Phase(
    (events.replicas_move,), _changed("reassignment"), "broker",
    ({"api": "FetchFollower", "direction": "request"}, {"purpose": "replica-fetch"}),
)  # fmt: skip
REJOINING = Phase(
    AWAY, {"fact": "BecameFollower", "at-least": {"leader_epoch": 1}}, "@node",
    ({"api": "FetchFollower", "direction": "request"}, {"purpose": "replica-fetch"}),
)  # fmt: skip

OF_MODE: dict[str, tuple[Phase, ...]] = {
    "kraft": (
        PROPOSING, PROPOSING, REASSIGNING, REJOINING,
        Phase((events.leaders_move,), _changed("preferred"), "broker",
              ({"purpose": METADATA_PURPOSE["kraft"]},)),
        Phase((events.broker_restarts,),
              {"fact": "BrokerState", "fields": {"state": "PENDING_CONTROLLED_SHUTDOWN"}},
              "@node", ({"api": "BrokerHeartbeat"},)),
        Phase(AWAY, {"fact": "BrokerRegistration", "fields": {"change": "registered"}}, "broker",
              ({"purpose": METADATA_PURPOSE["kraft"]}, {"api": "BrokerHeartbeat"})),
        Phase((events.controller_away,), {"fact": "RaftRole"}, "any-controller",
              ({"purpose": "raft-vote"}, {"api": "RaftFetch"})),
    ),
    "zookeeper": (
        PROPOSING, PROPOSING, REASSIGNING, REJOINING,
        Phase((events.leaders_move, events.replicas_move, events.leader_away),
              {"fact": "ZkControllerWrite"}, "controller",
              ({"api": "LeaderAndIsr"}, {"api": "StopReplica"}, {"api": "UpdateMetadata"},
               {"purpose": "controller"})),
        Phase((events.broker_restarts,),
              {"fact": "BrokerState", "fields": {"state": "PENDING_CONTROLLED_SHUTDOWN"}},
              "@node", ({"api": "ControlledShutdown"},)),
        Phase((events.controller_away,),
              {"fact": "ControllerActive", "fields": {"active": True}}, "@node",
              ({"purpose": "controller"}, {"purpose": "zookeeper"})),
        Phase(AWAY, {"fact": "ZooKeeperSession"}, "controller",
              ({"purpose": "zookeeper"}, {"api": "LeaderAndIsr"})),
    ),
}  # fmt: skip
"""The phases of each mode; what waits for AlterPartition is drawn twice as often."""


class Stretch:
    """One phase of one chain: it is held for ``lasts`` ms from its fact on."""

    def __init__(self, focus: Focus, pace: Pace) -> None:
        rng = focus.rng
        self._rng = rng
        self.phase = rng.choice(OF_MODE[focus.mode])
        self.when = {**self.phase.fact, "count": rng.choice((1, 1, 2, 3))}
        self.lasts = max(200.0, pace.away())

    def begin(self, focus: Focus, pace: Pace, anchor: Anchor) -> None:
        """Bring the phase about, and hold what ends it."""
        rng = self._rng
        rng.choice(self.phase.causes)(focus, pace, anchor)
        node = self.phase.node
        if node == "broker":
            node = f"broker-{rng.choice(focus.brokers)}"
        elif node == "controller":
            node = "active-controller"
        held = dict(rng.choice(self.phase.messages))
        if "direction" not in held and rng.random() < 0.8:
            held["direction"] = rng.choice(("request", "response"))
        begins = Anchor(0.1, self.when)
        hold = {"kind": "hold", **begins.at(), "node": node, **held, "for": ms(self.lasts)}
        focus.faults.append(hold)
        if node == "@node" and rng.random() < 0.3:  # lost: the connection breaks before it comes
            end = begins.at(self.lasts * rng.uniform(0.3, 1.0))
            focus.faults.append({"kind": "reset", **end, "node": node})
        if rng.random() < 0.4:  # who waits is gone, and its successor finds the phase half done
            waits = (node, "active-controller", f"leader:{TOPIC}-0")
            gone = {"kind": rng.choice(events.GONE), "node": rng.choice(waits), "guarded": True}
            focus.faults.append({**gone, **self.within().at(), "for": ms(pace.away())})

    def within(self) -> Anchor:
        """Return a moment of the phase, or one shortly after it."""
        return Anchor(self.lasts * self._rng.uniform(0.02, 1.1), self.when)
