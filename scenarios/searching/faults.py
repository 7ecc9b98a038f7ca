"""What a drawn cluster is put through: faults and an operator's actions (see scenarios/searching/swarm.py)."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.sim.faults.nemesis import WEIGHTS

LATE_REPLIES = {
    "kraft": ("Fetch", "Fetch", "AlterPartition", "Produce", "BrokerHeartbeat", "RaftFetch"),
    "zookeeper": ("Fetch", "Fetch", "AlterPartition", "Produce", "LeaderAndIsr", "UpdateMetadata"),
}
"""Whose replies or requests a targeted fault keeps back: Kafka's API names."""

METADATA = {"kraft": "raft-fetch", "zookeeper": "controller"}
"""The purpose of the connections by which a broker hears of new metadata."""

MOMENTS = {
    "kraft": ("BecameLeader", "BecameFollower", "IsrChanged", "Truncated", "Replicated",
              "LogLoaded", "ControllerActive", "PartitionChanged", "HighWatermark"),
    "zookeeper": ("BecameLeader", "BecameFollower", "IsrChanged", "Truncated", "Replicated",
                  "LogLoaded", "ControllerActive", "PartitionChanged", "ZooKeeperSession"),
}  # fmt: skip
"""Facts at which the node that tells of them pauses or crashes."""


VERBS = {
    "kraft": ("elect-leader", "elect-leader", "reassign", "reassign", "cancel", "restart"),
    "zookeeper": ("elect-leader", "elect-leader", "reassign", "reassign", "cancel", "restart"),
}
"""What an operator may do."""

MORE_VERBS = ("reassign", "cancel", "alter-config", "extra-topic", "replace-disk")

PURPOSES = {
    "kraft": ("raft-fetch", "heartbeat", "alter-partition", "replica-fetch"),
    "zookeeper": ("controller", "zookeeper", "alter-partition", "replica-fetch"),
}
"""Connections that are cut alone, while all others of the broker work."""

CLIENT_APIS = (
    "OffsetCommit", "JoinGroup", "SyncGroup", "Heartbeat", "FindCoordinator", "Metadata",
    "InitProducerId", "ListOffsets", "OffsetFetch",
)  # fmt: skip

MORE_MOMENTS = {
    "kraft": ("RaftRole", "BrokerRegistration", "MetadataCommitted", "CoordinatorLoaded",
              "GroupState", "OffsetCommitted", "Appended", "IsrUpdateFailed", "HostStarted"),
    "zookeeper": ("ZooKeeperRole", "ZooKeeperConnection", "ZkControllerWrite", "ControlRequest",
                  "CoordinatorLoaded", "GroupState", "OffsetCommitted", "Appended", "HostStarted"),
}  # fmt: skip


def faults(rng: random.Random, brokers: int, mode: str) -> list[dict[str, Any]]:
    """Draw up to two nemeses and some targeted faults, at least one of them all."""
    drawn = [_nemesis(rng) for _ in range(rng.choice((0, 1, 1, 2)))]
    if rng.random() < 0.4:
        apis = LATE_REPLIES[mode]
        drawn += [_late(rng, brokers, apis) for _ in range(rng.choice((1, 2)))]
    if rng.random() < 0.3:
        drawn.append(_stalled_metadata(rng, brokers, METADATA[mode]))
    if not drawn or rng.random() < 0.3:
        drawn += [_at_a_moment(rng, MOMENTS[mode]) for _ in range(rng.choice((1, 1, 2)))]
    return drawn


def more_faults(rng: random.Random, cluster: dict[str, Any], mode: str) -> list[dict[str, Any]]:
    """Draw, now and then: one purpose cut, a client's replies held, a link that flaps, a moment."""
    brokers = cluster["brokers"]
    drawn: list[dict[str, Any]] = []
    if rng.random() < 0.25:
        drawn.append({
            "kind": "cut-purpose",
            "node": f"broker-{rng.randrange(1, brokers + 1)}",
            "purpose": rng.choice(PURPOSES[mode]),
            **_times(rng),
        })  # fmt: skip
    if rng.random() < 0.2:
        drawn.append(_late(rng, brokers, CLIENT_APIS))
    if rng.random() < 0.15:
        one, other = rng.sample(range(1, brokers + 1), 2)
        lag_ms = cluster["config"]["replica.lag.time.max.ms"]
        drawn.append({
            "kind": rng.choice(("partition", "partition-oneway")),
            "node": f"broker-{one}",
            "peers": [f"broker-{other}"],
            "at": ["100ms", "2s"],
            "for": ["200ms", f"{min(lag_ms, 3000)}ms"],
            "every": ["1s", f"{min(2 * lag_ms, 4000)}ms"],
            "count": rng.choice((2, 3, 4)),
        })  # fmt: skip
    if rng.random() < 0.2:
        drawn.append(_at_a_moment(rng, MORE_MOMENTS[mode]))
    return drawn


def more_operations(
    rng: random.Random, brokers: int, topic: dict[str, Any]
) -> list[dict[str, Any]]:
    """Draw, now and then: a reassignment, a changed setting, a topic that comes and goes, a disk."""
    drawn: list[dict[str, Any]] = []
    while rng.random() < 0.3:
        kind = rng.choice(MORE_VERBS)
        at = {"at": ["500ms", "8s"]}
        if kind in ("reassign", "cancel"):
            drawn.append(_operation(rng, brokers, (kind,), topic))
        elif kind == "alter-config":
            least = rng.randrange(1, min(topic["replication-factor"], 2) + 1)
            config = rng.choice(({"min.insync.replicas": least}, {"flush.messages": 1}))
            drawn.append({"kind": kind, "topic": topic["name"], "config": config, **at})
        elif kind == "replace-disk":
            node = f"broker-{rng.randrange(1, brokers + 1)}"
            kill = rng.random() < 0.5
            drawn.append({"kind": kind, "node": node, "kill": kill, "pause": "300ms", **at})
        elif all(known["kind"] != "create-topic" for known in drawn):
            create: dict[str, Any] = {
                "kind": "create-topic",
                "topic": "extra",
                "at": ["100ms", "3s"],
            }
            create |= {"partitions": rng.choice((1, 3)), "replication-factor": rng.choice((1, 3))}
            drawn.append(create)
            drawn.append({"kind": "delete-topic", "topic": "extra", "at": ["2s", "6s"]})
    return drawn


def operations(
    rng: random.Random, brokers: int, mode: str, topic: dict[str, Any]
) -> list[dict[str, Any]]:
    """Draw what an operator does meanwhile: nothing, most of the time."""
    drawn: list[dict[str, Any]] = []
    if rng.random() < 0.2:
        drawn.append({
            "kind": "rolling-restart", "at": f"{rng.randrange(1, 6)}s", "pause": "1s",
            "kill": rng.random() < 0.3,
        })  # fmt: skip
    while rng.random() < 0.35:
        drawn.append(_operation(rng, brokers, VERBS[mode], topic))
    return drawn


def _operation(
    rng: random.Random, brokers: int, kinds: tuple[str, ...], topic: dict[str, Any]
) -> dict[str, Any]:
    what: dict[str, Any] = {"at": ["500ms", "8s"]}
    kind = rng.choice(kinds)
    partition = rng.randrange(topic["partitions"])
    if kind == "elect-leader":
        return {"kind": kind, **what}
    if kind == "restart":
        broker = f"broker-{rng.randrange(1, brokers + 1)}"
        return {"kind": kind, "node": broker, "kill": rng.random() < 0.5, "pause": "300ms", **what}
    place = {"kind": "reassign", "topic": topic["name"], "partition": partition, **what}
    if kind == "cancel":
        return {**place, "cancel": True}
    count = topic["replication-factor"]
    return {**place, "replicas": rng.sample(range(1, brokers + 1), count)}


def _late(rng: random.Random, brokers: int, apis: tuple[str, ...]) -> dict[str, Any]:
    """Hold one broker's replies (or requests) of one API, then let them go."""
    return {
        "kind": "hold",
        "node": f"broker-{rng.randrange(1, brokers + 1)}",
        "api": rng.choice(apis),
        "direction": rng.choice(("response", "response", "request")),
        **_times(rng),
    }


def _stalled_metadata(rng: random.Random, brokers: int, purpose: str) -> dict[str, Any]:
    """Hold what tells a broker of new metadata: the next delta spans what it missed."""
    return {
        "kind": "hold",
        "node": f"broker-{rng.randrange(1, brokers + 1)}",
        "purpose": purpose,
        **_times(rng),
    }


def _at_a_moment(rng: random.Random, moments: tuple[str, ...]) -> dict[str, Any]:
    return {
        "kind": rng.choice(("gc-pause", "gc-pause", "crash")),
        "node": "@node",
        "for": ["300ms", f"{rng.choice((1, 3, 6))}s"],
        "when": {"fact": rng.choice(moments), "count": rng.choice((1, 2, 3, 5, 8))},
    }


def _times(rng: random.Random) -> dict[str, Any]:
    times: dict[str, Any] = {
        "at": ["100ms", "5s"],
        "for": ["100ms", f"{rng.choice((1, 2, 4))}s"],
    }
    if rng.random() < 0.5:
        times |= {"every": ["1s", "3s"], "count": rng.choice((2, 3))}
    return times


ODD_KINDS = ("flush-error", "disk-full", "rack-loss")
"""Never drawn: most claims exclude them."""


def _nemesis(rng: random.Random) -> dict[str, Any]:
    known = [kind for kind in WEIGHTS if kind not in ODD_KINDS]
    kinds = rng.sample(known, rng.choice((1, 2, 3, 5, len(known))))
    longest = rng.choice((1, 2, 5))
    return {
        "kind": "nemesis",
        "kinds": kinds,
        "gap": rng.choice(("600ms", "1s", "2s")),
        "for": ["300ms", f"{longest}s"],
    }
