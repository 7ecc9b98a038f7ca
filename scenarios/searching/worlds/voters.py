"""The voters of the metadata quorum change while servers fail (KIP-853).

An operator follows one plan: a standby becomes a voter, takes the place of one, a voter leaves and
comes back, or its disk is replaced. A change that meets a fault is refused or times out, so the
operator asks again. Strikes aim at the moments in which a controller adopts another set.

A voter whose disk was replaced is another replica. So a plan replaces the disks of fewer than half
of the voters, and then removes nobody else: what has lost the disks of its majority is outside of
what a quorum survives. Voters of controller.quorum.voters keep their disks: such a voter comes back
under its old name, and has forgotten its vote and what it had acknowledged.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.25
"""The share of KRaft seeds whose voters change."""

Step = dict[str, Any]
Plan = Callable[[random.Random, "Quorum"], list[Step]]

AWAY = ("crash", "crash", "power-loss", "stop", "gc-pause", "isolate")
"""How a controller goes away."""


class Quorum:
    """The controllers of a drawn scenario, by the hosts that they run on."""

    def __init__(self, rng: random.Random, cluster: dict[str, Any]) -> None:
        """Draw a size, not below the one that the scenario has, and one or two standbys."""
        known = cluster["controllers"]
        self.size = max(known, rng.choice((1, 3, 3, 3, 5)))
        if self.size != known:  # one controller needs no election, so it may have long timers
            for name in ("fetch", "request"):
                cluster["config"].pop(f"controller.quorum.{name}.timeout.ms", None)
        cluster["controllers"] = self.size
        cluster["standby-controllers"] = standbys = rng.choice((1, 1, 2))
        combined = cluster.get("combined", 0)
        self.voters = [self._host(number + 1, combined) for number in range(self.size)]
        self.standbys = [f"controller-{self.size + number + 1}" for number in range(standbys)]
        self.own_hosts = [host for host in self.voters if host.startswith("controller-")]

    @staticmethod
    def _host(number: int, combined: int) -> str:
        return f"broker-{number}" if number <= combined else f"controller-{number}"


def _add(node: str) -> Step:
    return {"kind": "add-voter", "node": node}


def _remove(node: str) -> Step:
    return {"kind": "remove-voter", "node": node}


def grows(rng: random.Random, quorum: Quorum) -> list[Step]:
    """The standbys become voters; perhaps one of them leaves again."""
    steps = [_add(standby) for standby in quorum.standbys]
    return steps + [_remove(rng.choice(quorum.standbys))] * rng.choice((0, 1))


def replaced(rng: random.Random, quorum: Quorum) -> list[Step]:
    """A standby takes the place of a voter, which may be stopped then."""
    voter = rng.choice(quorum.voters)
    steps = [_add(quorum.standbys[0]), _remove(voter)]
    if quorum.size > 1 and rng.random() < 0.5:
        steps.reverse()
    if voter in quorum.own_hosts and rng.random() < 0.5:
        steps.append({"kind": "stop", "node": voter, "kill": rng.random() < 0.5})
    return steps


def leaves_and_returns(rng: random.Random, quorum: Quorum) -> list[Step]:
    """A voter leaves the set and comes back with its log."""
    if quorum.size == 1:
        return grows(rng, quorum)
    voter = rng.choice(quorum.voters)
    return [_remove(voter), _add(voter)]


def loses_its_disk(rng: random.Random, quorum: Quorum) -> list[Step]:
    """A voter gets an empty disk. Its old key is removed, and the replica that it is now is added.

    Of five voters two may lose their disks, one after the other.
    """
    if quorum.size == 1 or not quorum.own_hosts:
        return grows(rng, quorum)
    most = min(len(quorum.own_hosts), (quorum.size - 1) // 2)
    steps: list[Step] = []
    for voter in rng.sample(quorum.own_hosts, rng.randrange(1, most + 1)):
        empty = {"kind": "replace-disk", "node": voter, "kill": rng.random() < 0.5}
        steps += [{**empty, "pause": ms(rng.choice((50, 300, 1000)))}, _remove(voter), _add(voter)]
    return steps


def standby_loses_its_disk(rng: random.Random, quorum: Quorum) -> list[Step]:
    """A standby joins, leaves, and joins again with an empty disk.

    It may not have left, and then one of two voters would have lost its disk.
    """
    if quorum.size == 1:
        return grows(rng, quorum)
    node = quorum.standbys[0]
    empty = {"kind": "replace-disk", "node": node, "kill": True, "pause": "100ms"}
    return [_add(node), _remove(node), empty, _add(node)]


PLANS: tuple[Plan, ...] = (
    grows, replaced, replaced, leaves_and_returns, loses_its_disk, loses_its_disk,
    standby_loses_its_disk,
)  # fmt: skip


def voter_changes(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the voters of some KRaft seeds change, and strike controllers meanwhile."""
    cluster, done = data["cluster"], data.get("operations", [])
    if rng.random() >= SHARE or cluster.get("mode") == "zookeeper":
        return
    if data["expect"].keys() & {"never", "in-time"} or "standby-controllers" in cluster:
        return
    quorum = Quorum(rng, cluster)
    at = float(rng.randrange(400, 3000))
    begins = at
    for step in rng.choice(PLANS)(rng, quorum):
        done.append({**step, "at": ms(at)})
        if step["kind"] in ("add-voter", "remove-voter") and rng.random() < 0.5:
            at += rng.choice((300, 1000, 2500)) * rng.uniform(0.5, 1.0)
            done.append({**step, "at": ms(at)})  # once more: the first may have failed
        at += rng.choice((50, 300, 1000)) * rng.uniform(0.5, 1.5)
    data["operations"] = done
    data["duration"] = max(data["duration"], ms(at + 500), key=duration_us)
    for _ in range(rng.choice((0, 1, 2, 2, 3))):
        data["faults"].append(_strike(rng, quorum, begins, at))


def _strike(rng: random.Random, quorum: Quorum, begins: float, ends: float) -> dict[str, Any]:
    """Draw a fault of a controller: when a set is adopted, or at any time of the plan."""
    every = [*quorum.voters, *quorum.standbys]
    fault: dict[str, Any] = {"for": ms(rng.choice((100, 500, 2000, 4000)) * rng.uniform(0.5, 1.0))}
    node = rng.choice(("active-controller", "active-controller", rng.choice(every)))
    if rng.random() < 0.6:
        count = rng.randrange(1, 2 * quorum.size + 2)
        fault["when"] = {"fact": "VotersChanged", "count": count}
        fault["at"] = ms(rng.choice((0.1, 5.0, 30.0, 500.0)))
        node = rng.choice((node, "@node"))
    else:
        fault["at"] = ms(rng.uniform(begins - 300, ends))
    if rng.random() < 0.5:
        return {"kind": rng.choice(AWAY), "node": node, "guarded": True, **fault}
    return {**_disturbance(rng, every), "node": node, **fault}


def _disturbance(rng: random.Random, every: list[str]) -> dict[str, Any]:
    return dict(rng.choice((
        {"kind": "hold", "api": "RaftFetch", "direction": rng.choice(("request", "response"))},
        {"kind": "cut-purpose", "purpose": rng.choice(("raft-fetch", "raft-vote"))},
        {"kind": "partition", "peers": rng.sample(every, (len(every) + 1) // 2)},
        {"kind": "partition-oneway", "peers": rng.sample(every, (len(every) + 1) // 2)},
        {"kind": "slow-disk", "factor": rng.choice((100, 1000))},
    )))  # fmt: skip
