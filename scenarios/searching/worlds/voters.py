"""The voters of the metadata quorum change while servers fail (KIP-853).

An operator follows one plan: a standby becomes a voter, a standby replaces a voter, a voter leaves
and returns, or a voter's disk is replaced. During a fault a change may be refused or time out, so
the operator tries again. Strikes hit a controller when it adopts another voter set.

A voter whose disk was replaced is another replica. So a plan replaces the disks of fewer than half
of the voters, and then removes no other voter: a quorum does not survive the loss of a majority of
its disks. Voters of controller.quorum.voters keep their disks: such a voter would return under its
old id, without its vote and without the records that it had acknowledged.

In some of the other seeds voters change while an election runs. A voter is removed when it becomes
a candidate, or the leader, or a standby is removed as soon as some controller has it in its set.
Here the operator waits for the facts of the quorum, since an election takes milliseconds.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
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
    if is_about_its_faults(data) or "standby-controllers" in cluster:
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


ELECTIONS = 0.12
"""The share of KRaft seeds without another change of voters in which one meets an election."""

AT_ONCE = (0.1, 5.0, 30.0, 300.0)
"""How many ms after the fact an operator acts: within an election, and shortly behind it."""


def changes_in_elections(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator change the voters of some KRaft seeds while an election runs."""
    cluster = data["cluster"]
    if rng.random() >= ELECTIONS or cluster.get("mode") == "zookeeper":
        return
    done = data.get("operations", [])
    if is_about_its_faults(data) or "standby-controllers" in cluster:
        return
    if any(each["kind"] == "duplicate-broker" for each in done):
        return
    quorum = Quorum(rng, cluster)
    if quorum.size > 1:  # an election takes as long as these
        cluster["config"].setdefault("controller.quorum.fetch.timeout.ms", 1000)
        cluster["config"].setdefault("controller.quorum.election.timeout.ms", 300)
    at = float(rng.randrange(400, 2500))
    plans = (candidate_removed, leader_removed, leader_removed, standby_comes_and_goes)
    plan = rng.choice(plans) if quorum.size > 1 else standby_comes_and_goes
    faults, operations = plan(rng, quorum, at, cluster.get("kafka-version", "4.0"))
    data["faults"] += faults
    data["operations"] = done + operations
    data["duration"] = max(data["duration"], ms(at + 5000), key=duration_us)


def candidate_removed(
    rng: random.Random, quorum: Quorum, at: float, release: str
) -> tuple[list[Step], list[Step]]:
    """A voter that cannot fetch campaigns, and is removed then. Its vote requests may arrive.

    It asks for votes as a voter of its own set until it learns the new one. Since 4.0 it asks for
    pre-votes first (KIP-996), and gets none while the others have a leader.
    """
    voter = rng.choice(quorum.voters)
    others = [each for each in (*quorum.voters, *quorum.standbys) if each != voter]
    role = "candidate" if release == "3.9" else "prospective"
    campaigns = _becomes(voter, role, rng.choice((1, 1, 2)))
    smaller = {"fact": "VotersChanged", "at-most": {"voters": quorum.size - 1}}
    cut: Step = {
        "node": voter, "peers": others, "at": ms(at), "for": ms(rng.uniform(2500, 4500)),
        **rng.choice((
            {"kind": "cut-purpose", "purpose": "raft-fetch"}, {"kind": "partition"},
            {"kind": "hold", "api": "RaftFetch", "direction": "response"},
        )),
    }  # fmt: skip
    if rng.random() < 0.5:
        cut["until"] = {**smaller, "count": rng.choice((1, quorum.size))}
    asks = [_seen(_remove(voter), campaigns, rng.choice(AT_ONCE))]
    if rng.random() < 0.5:
        asks.append(_seen(_add(voter), smaller, rng.choice(AT_ONCE)))
    return [cut], asks


def leader_removed(
    rng: random.Random, quorum: Quorum, at: float, _: str
) -> tuple[list[Step], list[Step]]:
    """Whoever is elected is removed at once. It leads on until its removal is committed."""
    faults = [_gone(rng, "active-controller", {"at": ms(at)})]
    asks = []
    for voter in quorum.voters:
        elected = _becomes(voter, "leader", 1)
        asks.append(_seen(_remove(voter), elected, rng.choice(AT_ONCE)))
        if rng.random() < 0.5:
            asks.append(_seen(_add(quorum.standbys[0]), elected, rng.choice(AT_ONCE)))
    if rng.random() < 0.5:  # before most controllers know, or after
        adopted = {"fact": "VotersChanged", "count": rng.randrange(1, quorum.size + 1)}
        moment = {"when": adopted, "at": ms(rng.choice(AT_ONCE))}
        faults.append(_gone(rng, "active-controller", moment))
    return faults, asks


def standby_comes_and_goes(
    rng: random.Random, quorum: Quorum, at: float, _: str
) -> tuple[list[Step], list[Step]]:
    """A standby is added, removed when a controller has adopted it, and perhaps added again.

    The leader, or the one that campaigns, goes away meanwhile.
    """
    standby = quorum.standbys[0]
    larger = {"fact": "VotersChanged", "at-least": {"voters": quorum.size + 1}}
    smaller = {"fact": "VotersChanged", "at-most": {"voters": quorum.size}}
    asks = [{**_add(standby), "at": ms(at)}]
    for gap in (0.1, 500.0)[: rng.choice((1, 2))]:  # once more: the first one may have failed
        adopted = {**larger, "count": rng.randrange(1, quorum.size + 1)}
        asks.append(_seen(_remove(standby), adopted, gap))
    if rng.random() < 0.5:
        asks.append(_seen(_add(standby), smaller, rng.choice(AT_ONCE)))
    moments = [{"when": {**larger, "count": rng.randrange(1, quorum.size + 2)}, "at": ms(gap)}
               for gap in rng.sample(AT_ONCE, rng.choice((1, 2)))]  # fmt: skip
    faults = [_gone(rng, "active-controller", moment) for moment in moments]
    if rng.random() < 0.5 and quorum.size > 1:
        role = rng.choice(("candidate", "leader", "follower"))
        seen = {"fact": "RaftRole", "fields": {"role": role}, "count": rng.choice((1, 2))}
        faults.append(_gone(rng, "@node", {"when": seen, "at": ms(rng.choice(AT_ONCE))}))
    return faults, asks


def _becomes(node: str, role: str, count: int) -> dict[str, Any]:
    return {"fact": "RaftRole", "node": node, "fields": {"role": role}, "count": count}


def _seen(step: Step, when: dict[str, Any], gap: float) -> Step:
    return {**step, "when": when, "at": ms(gap)}


def _gone(rng: random.Random, node: str, moment: dict[str, Any]) -> Step:
    lasts = ms(rng.choice((500, 2000, 4000)) * rng.uniform(0.5, 1.0))
    return {"kind": rng.choice(AWAY), "node": node, "guarded": True, **moment, "for": lasts}
