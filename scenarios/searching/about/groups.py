"""Scenarios about consumer groups: members come, go, restart and are slow, again and again.

A group has the classic or the consumer protocol (KIP-848), with dynamic or static members
(KIP-345). Some runs last for minutes, with timers of tens of seconds, and one of their members is
stuck: only then is a rebalance longer than the shortest retention of offsets.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.about.clients import strike_clients
from kafkasim.scenarios.searching.about.world import scenario, small_cluster, topic_of
from kafkasim.scenarios.searching.choices.clients import commits
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.limits import limits
from kafkasim.scenarios.searching.draw_transactions import add_processors
from kafkasim.scenarios.searching.draw_workload import (
    ASSIGNORS,
    permit_unreleased,
    permitted,
    set_broker_timeouts,
)
from kafkasim.scenarios.searching.shapes.focus import ms

DURATION_MS = 20_000

VERSIONS = ("3.9", "4.0", "4.0", "4.1")

LONG = 0.15
"""The share of seeds with timers of tens of seconds."""

SCALE = 8
"""How much longer than in other seeds their timers, and the run, are."""

MOST_HEARTBEAT_MS = 15_000
"""group.consumer.max.heartbeat.interval.ms, as Kafka has it."""

CHURN_MS = (300, 1000, 3000)
"""How often, in the mean, a member stops."""

PROCESSING = 0.2
"""The share of seeds with a group of processors (KIP-447)."""


def classic(seed: int, mode: str) -> dict[str, Any]:
    """Return the data of a scenario about a group of the classic protocol."""
    rng = random.Random(f"about/classic-groups/{seed}")
    return _draw(rng, f"classic-groups-{seed}", mode, modern=False)


def consumer(seed: int, mode: str) -> dict[str, Any]:
    """Return the data of a scenario about a group of the consumer protocol, in KRaft mode."""
    rng = random.Random(f"about/consumer-groups/{seed}")
    return _draw(rng, f"consumer-groups-{seed}", mode, modern=True)


def _draw(rng: random.Random, name: str, mode: str, *, modern: bool) -> dict[str, Any]:
    scale = SCALE if rng.random() < LONG else 1
    data = scenario(name, DURATION_MS * scale)
    versions = VERSIONS[1:] if modern else VERSIONS
    cluster = data["cluster"] = small_cluster(rng, mode, versions)
    data["topics"] = [topic_of(rng, rng.choice((1, 2, 3, 4, 6)))]
    data["workload"] = [_producer(rng, scale)]
    members = _modern(rng, cluster, scale) if modern else _classic(rng, scale)
    data["workload"] += _members(rng, members, scale)
    data["expect"]["permits"] = permitted(data["workload"], False)
    if modern:
        permit_unreleased(data, ["group"])
    if rng.random() < PROCESSING:
        add_processors(rng, data)
    if scale > 1:
        cluster["config"]["offsets.retention.minutes"] = 1
        cluster["config"]["replica.fetch.wait.max.ms"] = 500
    commits(rng, data)
    limits(rng, data)
    cast = Cast(rng, data, mode, 5000 * scale)
    _come_and_go(cast, DURATION_MS * scale, scale)
    strike_clients(cast, DURATION_MS * scale, scale)
    return data


def _producer(rng: random.Random, scale: int) -> dict[str, Any]:
    return {
        "kind": "producer",
        "rate": f"{rng.choice((5, 20)) if scale == 1 else 1}/s",
        "config": {"acks": "all", "request.timeout.ms": 2000, "delivery.timeout.ms": 20_000,
                   "metadata.max.age.ms": 5000, "linger.ms": 0},
    }  # fmt: skip


def _classic(rng: random.Random, scale: int) -> dict[str, Any]:
    session = rng.choice((1500, 3000, 6000)) * scale
    return {
        "session.timeout.ms": session,
        "heartbeat.interval.ms": session // rng.choice((3, 10)),
        "partition.assignment.strategy": list(rng.choice(ASSIGNORS)),
    }


def _modern(rng: random.Random, cluster: dict[str, Any], scale: int) -> dict[str, Any]:
    """Draw what brokers set for members of consumer groups, and what the members choose."""
    session = rng.choice((1500, 3000, 6000)) * scale
    interval = min(session // rng.choice((3, 10)), MOST_HEARTBEAT_MS)
    set_broker_timeouts(cluster["config"], session, interval)
    chosen = {"group.protocol": "consumer"}
    if rng.random() < 0.5:
        chosen["group.remote.assignor"] = rng.choice(("uniform", "range"))
    return chosen


def _members(rng: random.Random, protocol: dict[str, Any], scale: int) -> list[dict[str, Any]]:
    """Draw two to four members; each is quick, slow or stuck for a while, all or none are static.

    A slow one needs less than its session for a record. A cooperative member of a classic group
    gets records while its JoinGroup is under way, and sends neither SyncGroup nor heartbeats
    before its next poll() (AbstractCoordinator.HeartbeatThread): it would lose each generation.
    """
    static = rng.random() < 0.5
    slow = ms(rng.choice((0.1, 0.3, 0.6)) * protocol.get("session.timeout.ms", 4000 * scale))
    shared = {
        "auto.offset.reset": "earliest",
        "max.poll.interval.ms": rng.choice((5000, 15_000)) * scale,
        "auto.commit.interval.ms": rng.choice((500, 5000)),
        "request.timeout.ms": 2000,
        "default.api.timeout.ms": 5000,
        "metadata.max.age.ms": 5000,
        **protocol,
    }
    commit = rng.choice(("auto", "sync", "async"))
    drawn = []
    for index in range(rng.choice((2, 3, 3, 4))):
        config = {**shared, "max.poll.records": rng.choice((1, 50))}
        if static:
            config["group.instance.id"] = f"instance-{index}"
        member = {"kind": "consumer-group", "group": "group", "commit": commit, "config": config}
        if rng.random() < 0.25:
            member["processing"] = slow
            config["max.poll.records"] = 1
        if index == 0 if scale > 1 else rng.random() < 0.15:
            member["stuck-at"] = ms(rng.randrange(500, 12_000) * scale)
            member["stuck-for"] = ms(config["max.poll.interval.ms"] * rng.uniform(0.2, 1.5))
        if rng.random() < 0.2:
            member["start"] = ms(rng.randrange(500, 5000) * scale)
        drawn.append(member)
    return drawn


def _come_and_go(cast: Cast, duration: float, scale: int) -> None:
    """Let members leave, die and come back all the time, each a short or a long time later.

    A group that does not rebalance shows little. What it agreed on is often out of date before its
    members have done it. In a long run the stuck member stays, so that the rebalance waits for it.
    """
    rng, operations = cast.rng, cast.data["operations"]
    coming = [each for each in cast.groups if scale == 1 or "stuck-at" not in each]
    members = [host for each in coming for host in cast.hosts(each)]
    every = CHURN_MS[-1] * scale if scale > 1 else rng.choice(CHURN_MS)
    busy = dict.fromkeys(members, 0.0)
    at = rng.uniform(500, 3000) * scale
    while at < duration * 0.85:
        free = [node for node in members if busy[node] < at]
        if free:
            node = rng.choice(free)
            back = at + (cast.near() if rng.random() < 0.6 else cast.away())
            how = {"kill": True} if rng.random() < 0.5 else {}
            operations.append({"kind": "stop", "node": node, "at": ms(at), **how})
            operations.append({"kind": "start", "node": node, "at": ms(min(back, duration - 1))})
            busy[node] = back
        at += rng.uniform(0.2, 1.8) * every
