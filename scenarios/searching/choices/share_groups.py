"""Share groups (KIP-932) beside the other workloads of a drawn scenario.

Kafka's shortest lock is 15 seconds and its shortest session 45. So the brokers' minima are lowered
until locks expire and sessions end within a run. A share group has only the topic and the brokers
in common with other groups, so everything that was drawn before stays as it is.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from kafkasim.scenarios.searching.choices.sharing import at_work, meet
from kafkasim.scenarios.searching.shapes.apart import has_second_process

SHARE = 0.6
"""The share of seeds with a share group, of those whose servers can all run 4.1."""

GROUP = "sharers"

FIT_AT_ONCE = 4
"""How many members may join at once where a segment has 2000 bytes. A longer batch is refused, and
all members in it end (CoordinatorRuntime.append does not look at segment.bytes)."""

MEMBER_FAULTS = ("crash", "power-loss", "gc-pause", "isolate")


def share_groups(rng: random.Random, data: dict[str, Any]) -> None:
    """Let a share group, or two of them, read the topic."""
    if rng.random() >= SHARE or not _can(data):
        return
    cluster = data["cluster"]
    cluster["kafka-version"] = "4.1"
    cluster.setdefault("features", {})["share.version"] = 1
    _brokers(rng, cluster["config"])
    for number in range(rng.choice((1, 1, 1, 2))):
        group = _group(rng, f"{GROUP}-{number}")
        first = 1 + sum([each.get("count", 1) for each in data["workload"] if _reads(each)])
        data["workload"].append(group)
        for _ in range(rng.choice((0, 1, 1, 2))):
            member = f"consumer-{rng.randrange(first, first + group['count'])}"
            leader = f"leader:{data['topics'][0]['name']}-0"
            brokers = (leader, f"coordinator:{group['group']}", "any-broker")
            fault = _fault(rng, member, brokers)
            if fault["node"] == member or not has_second_process(data):
                data["faults"].append(fault)


def share_meetings(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the work of share groups take its time, and strike them at facts of theirs."""
    brokers = not has_second_process(data)
    first = 1
    for each in [each for each in data["workload"] if _reads(each)]:
        members = [f"consumer-{first + number}" for number in range(each.get("count", 1))]
        first += len(members)
        if each["kind"] == "share-group":
            at_work(rng, data, each)
            meet(rng, data, each, members, brokers=brokers)
    _make_room(data)


def _make_room(data: dict[str, Any]) -> None:
    """Let a segment of __consumer_offsets hold what members write that join at the same moment."""
    groups = [each for each in data["workload"] if "group" in each]
    config = data["cluster"].get("config", {})
    if (
        config.get("offsets.topic.segment.bytes") == 2000
        and any(each["kind"] == "share-group" for each in groups)
        and sum([each.get("count", 1) for each in groups]) > FIT_AT_ONCE
    ):
        config["offsets.topic.segment.bytes"] = 6000


def _reads(workload: dict[str, Any]) -> bool:
    """Return whether the hosts of a workload are called consumer-N."""
    return workload["kind"] in ("consumer-group", "share-group")


def _can(data: dict[str, Any]) -> bool:
    """Return whether all servers of the scenario run 4.1, or the release that is the default.

    What expects an observation in time is about faults of its own alone.
    """
    cluster = data["cluster"]
    operations = [each["kind"] for each in data.get("operations", ())]
    return (
        cluster.get("mode") != "zookeeper"
        and cluster.get("kafka-version", "4.1") == "4.1"
        and "nodes" not in cluster
        and "upgrade" not in operations
        and not data["expect"].keys() & {"never", "in-time", "must-see"}
    )


def _brokers(rng: random.Random, config: dict[str, Any]) -> None:
    """Draw what the brokers say of share groups, and of the topic that has their states."""
    session, lock = rng.choice((1500, 3000, 6000, 10_000)), rng.choice((1000, 2000, 5000))
    config |= {
        "group.share.min.session.timeout.ms": session,
        "group.share.session.timeout.ms": session,
        "group.share.min.heartbeat.interval.ms": session // 6,
        "group.share.heartbeat.interval.ms": session // rng.choice((3, 6)),
        "group.share.min.record.lock.duration.ms": 1000,
        "group.share.record.lock.duration.ms": lock,
        "group.share.delivery.count.limit": rng.choice((2, 5, 5, 10)),
        "share.coordinator.state.topic.num.partitions": rng.choice((1, 3)),
        "share.coordinator.append.linger.ms": rng.choice((0, 5, 5, 200)),
    }
    if config.get("metadata.log.segment.bytes") == 2000:
        config["metadata.log.segment.bytes"] = 8000  # more partitions may change in one batch
    if rng.random() < 0.3:
        config["group.share.partition.max.record.locks"] = 100
    if rng.random() < 0.3:
        config["share.coordinator.snapshot.update.records.per.snapshot"] = rng.choice((0, 3, 20))
        config["share.coordinator.load.buffer.size"] = rng.choice((300, 4000))
        config["share.coordinator.state.topic.prune.interval.ms"] = 1000
    if rng.random() < 0.2:
        config["share.coordinator.state.topic.min.isr"] = rng.choice((1, 3))


def _group(rng: random.Random, name: str) -> dict[str, Any]:
    own: dict[str, Any] = {
        "share.auto.offset.reset": rng.choice(("earliest", "earliest", "latest")),
        "share.isolation.level": rng.choice(("read_uncommitted", "read_committed")),
    }
    if rng.random() < 0.3:
        own["share.record.lock.duration.ms"] = rng.choice((1000, 3000))
    group: dict[str, Any] = {
        "kind": "share-group",
        "group": name,
        "count": rng.choice((1, 2, 3, 4)),
        "acknowledge": rng.choice(("implicit", "explicit")),
        "commit": rng.choice(("poll", "sync", "async")),
        "config": {
            "max.poll.records": rng.choice((1, 5, 50, 500)),
            "request.timeout.ms": rng.choice((2000, 10_000)),
            "default.api.timeout.ms": rng.choice((5000, 20_000)),
            "metadata.max.age.ms": rng.choice((5000, 30_000)),
        },
        "group-config": own,
    }
    if rng.random() < 0.4:
        group["processing"] = ["1ms", rng.choice(("5ms", "20ms"))]
    if rng.random() < 0.2:
        group["stuck-at"] = f"{rng.randrange(1000, 6000)}ms"
        group["stuck-for"] = f"{rng.choice((1, 3, 8))}s"
    if group["acknowledge"] == "explicit":
        group["release-share"] = rng.choice((0.0, 0.1, 0.5))
        group["reject-share"] = rng.choice((0.0, 0.1))
        if rng.random() < 0.3:
            group["poison-record"] = rng.randrange(40)
            group["on-poison"] = rng.choice(("release", "reject"))
    return group


def _fault(rng: random.Random, member: str, brokers: Sequence[str]) -> dict[str, Any]:
    """Draw what strikes a member, or pauses a broker that serves the group."""
    node = rng.choice((member, member, member, rng.choice(brokers)))
    kind = rng.choice(MEMBER_FAULTS) if node == member else "gc-pause"
    at = rng.randrange(1000, 8000)
    lasts = rng.choice(("300ms", "2s", "6s"))
    return {"kind": kind, "node": node, "at": f"{at}ms", "for": lasts}
