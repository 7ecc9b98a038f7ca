"""Brokers that lose ZooKeeper, and not the controller, while leaderships move.

A broker without ZooKeeper continues until its session ends, and still gets the controller's
requests. It follows, leads, loads and unloads partitions while its own requests to ZooKeeper wait.
When its session ends, the same process registers again, with its memory intact. Independent faults
hardly ever hit a broker that has lost ZooKeeper during a change of its role, and that leads again
afterwards.

So one leadership moves here and back: the leader stops, and returns; the next leader loses
ZooKeeper, and perhaps some of the brokers; preferred leaders are elected before its session ends;
then the present leader stops, too. Such a seed has no other faults, because any other fault or
change of leader would mostly end the sequence before its last step.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.clients.cast import NETWORK_MS, Cast
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.03
"""The share of ZooKeeper seeds in which this happens."""

OF_WRITERS = 0.15
"""The same of those with transactions, whose coordinators remember most."""

OF_TRANSACTIONS = 0.8
"""The share of the latter in which it happens to a coordinator of a transactional id."""

LEAVES_FIRST = 0.7
"""The share of seeds in which a replica that cannot fetch leaves the ISR before its session ends.

Otherwise the controller takes it out of the ISR in a later leader epoch, of which it hears when it
has registered anew."""

MOVES = ("elect-leader", "reassign", "restart", "rolling-restart", "replace-disk")
"""Operations that move leaders."""

LEAST_LAG_MS = 500

SESSION_MS = 18_000
"""zookeeper.session.timeout.ms, as Kafka has it."""


def lost_sessions(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let a broker of some seeds lose ZooKeeper while leaderships move away, and back to it."""
    if mode != "zookeeper" or is_about_its_faults(data):
        return
    cast = Cast(rng, data, mode)
    if rng.random() >= (OF_WRITERS if cast.writers else SHARE):
        return
    config = data["cluster"]["config"]
    faults: list[dict[str, Any]] = []
    session = int(config.get("zookeeper.session.timeout.ms", SESSION_MS))
    node, anchor = _leadership(rng, cast)
    back = float(rng.randrange(200, 800))
    faults.append({"kind": "stop", "node": node, **anchor.at(), "for": ms(back)})
    lost = back + rng.randrange(500, 2500)
    lasts = session * rng.uniform(0.9, 2.0)
    cut = {"kind": "partition", "node": node, "peers": _servers(data)}
    faults.append({**cut, **anchor.at(lost), "for": ms(lasts)})
    faults += _without_peers(rng, cast, node, anchor.at(lost), lasts)
    if rng.random() < LEAVES_FIRST:
        config["replica.lag.time.max.ms"] = max(LEAST_LAG_MS, int(session * rng.uniform(0.2, 0.6)))
    soon = 10.0 * NETWORK_MS
    elected = lost + rng.choice((soon, soon, session / 2)) * rng.uniform(0.1, 1.5)
    elect = {"kind": "elect-leader", **anchor.at(elected)}
    kept = [each for each in data.get("operations", ()) if each["kind"] not in MOVES]
    data["faults"], data["operations"] = faults, [*kept, elect]
    again = lost + lasts + rng.choice((300, 1500, 3000)) * rng.uniform(0.5, 1.5)
    how = rng.choice(("stop", "stop", "stop", "crash"))
    faults.append({"kind": how, "node": node, **anchor.at(again),
                   "for": ms(rng.randrange(300, 3000)), "guarded": True})  # fmt: skip
    planned = duration_us(data["duration"]) / 1000
    data["duration"] = ms(max(planned, anchor.base + again + 1500))


def _without_peers(
    rng: random.Random, cast: Cast, node: str, begins: dict[str, Any], lasts: float
) -> list[dict[str, Any]]:
    """Return what else the broker loses: all replication, some of the brokers, or nothing."""
    how = rng.choice(("replication", "replication", "brokers", ""))
    if not how:
        return []
    fault: dict[str, Any] = {"kind": "hold", "node": node, "purpose": "replica-fetch"}
    if how == "brokers":
        some = rng.sample(cast.brokers, rng.randrange(1, len(cast.brokers)))
        fault = {"kind": "partition", "node": node, "peers": some}
    return [{**fault, **begins, "for": ms(lasts)}]


def _servers(data: dict[str, Any]) -> list[str]:
    return [f"zookeeper-{number + 1}" for number in range(data["cluster"]["zookeepers"])]


def _leadership(rng: random.Random, cast: Cast) -> tuple[str, Anchor]:
    """Draw whose leadership swings, and when that begins: of the topic, or of a coordinator.

    A transaction's coordinator has something to remember once there is a transaction.
    """
    begins = float(rng.randrange(300, 1500))
    if cast.writers and rng.random() < OF_TRANSACTIONS:
        when = {"fact": "TransactionBegun", "count": rng.randrange(1, 6)}
        return f"transaction-coordinator:{cast.transactional_id()}", Anchor(begins, when)
    topic = f"leader:{cast.data['topics'][0]['name']}-0"
    if not cast.groups:
        return topic, Anchor(begins)
    group = f"coordinator:{rng.choice(cast.groups)['group']}"
    return rng.choice((topic, group)), Anchor(begins)
