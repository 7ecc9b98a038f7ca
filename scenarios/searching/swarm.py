"""Swarm testing: draw a whole scenario from a seed, so that no two runs test the same cluster.

Shape, configuration, workloads and the mix of faults are all drawn, with timeouts lowered to seconds
so that a short run (at most ten seconds under faults) sees sessions end, replicas fall behind and
leaders move. Faults are a guarded nemesis, which no drawn claim is broken by, and targeted ones: the
replies of one API come late, a broker's metadata stalls and then skips epochs, a node pauses or
crashes right at a named fact, connections of one purpose are cut, a link flaps. Other seeds play one
of the shapes of SHAPES: a few small faults that meet around one place and time. What a drawn
scenario permits follows from its configuration alone.
A swarm as in Groce et al.: each seed leaves out most kinds of faults, so that the rest bite harder.

:mod:`kafkasim.scenarios.searching.search` runs the drawn scenarios.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from typing import Any

from kafkasim.scenarios.searching import control_shapes as control
from kafkasim.scenarios.searching import replica_shapes as shapes
from kafkasim.scenarios.searching.directories import two_directories
from kafkasim.scenarios.searching.faults import faults, more_faults, more_operations, operations
from kafkasim.scenarios.searching.focus import Focus

MODES = ("kraft", "zookeeper")

FOCUSED = 0.6  # of the seeds play a shape
GROWN = 0.1  # of the seeds add partitions to their topic
SHAPES: tuple[tuple[Callable[[Focus], None], int, int], ...] = (  # weight in KRaft, in ZooKeeper
    (shapes.leaderships, 6, 6),
    (shapes.there_and_back, 4, 4),
    (shapes.alone, 3, 3),
    (shapes.joining, 4, 4),
    (shapes.handing_over, 2, 1),
    (shapes.moving, 1, 1),
    (shapes.churn, 1, 0),  # with ZooKeeper every reassignment is a new leader epoch
    (shapes.recreated, 1, 1),
    (shapes.short_segments, 1, 1),
    (control.paused_controller, 2, 1),
    (control.eligible_leaders, 3, 0),
    (control.quorum, 4, 0),
    (control.zookeeper_session, 0, 2),
    (control.zookeeper_bounce, 0, 2),
    (control.zookeeper_zombie, 0, 3),
)


def mode_of(seed: int) -> str:
    """Return the mode that a seed draws: even ones KRaft, odd ones ZooKeeper."""
    return MODES[seed % 2]


def draw(seed: int) -> dict[str, Any]:
    """Return the data of the scenario with this number, as a TOML file would give it."""
    rng = random.Random(f"swarm/{seed}")
    brokers = rng.choice((3, 3, 3, 4, 5))
    topic = _topic(rng, brokers)
    unclean = topic["config"].get("unclean.leader.election.enable", False)
    workload = [_producer(rng) for _ in range(rng.choice((1, 1, 2)))]
    workload += [_group(rng, f"group-{i}") for i in range(rng.choice((1, 1, 2)))]
    data: dict[str, Any] = {
        "name": f"swarm-{seed}",
        "claim": "Whatever this cluster is put through within its budget, it keeps its promises.",
        "duration": f"{rng.randrange(4, 11)}s",
        "cluster": _cluster(rng, brokers, mode_of(seed)),
        "topics": [topic],
        "workload": workload,
        "faults": faults(rng, brokers, mode_of(seed)),
        "expect": {"permits": permitted(workload, unclean)},
    }
    drawn = operations(rng, brokers, mode_of(seed), topic)
    more = random.Random(f"swarm/{seed}/more")  # a stream of its own: the rest of a seed stays
    if mode_of(seed) == "kraft":
        _quorum(more, data["cluster"])
    data["faults"] += more_faults(more, data["cluster"], mode_of(seed))
    drawn += more_operations(more, brokers, topic)
    # A voter that forgets what it voted and wrote is outside what a quorum survives.
    voters = [f"broker-{n + 1}" for n in range(data["cluster"].get("combined", 0))]
    drawn = [op for op in drawn if op["kind"] != "replace-disk" or op["node"] not in voters]
    if drawn:
        data["operations"] = drawn
    _focus(random.Random(f"swarm/{seed}/focus"), data, mode_of(seed))
    if not data["expect"].keys() & {"never", "in-time"}:  # what is asked for is of its faults alone
        two_directories(random.Random(f"swarm/{seed}/dirs"), data)
        _grow(random.Random(f"swarm/{seed}/grow"), data)
    return data


def _grow(rng: random.Random, data: dict[str, Any]) -> None:
    """Now and then the topic gets more partitions."""
    topic = data["topics"][0]
    if rng.random() < GROWN:
        known = max(topic["partitions"], len(topic.get("assignment", ())))
        data.setdefault("operations", []).append({
            "kind": "create-partitions", "topic": topic["name"],
            "partitions": known + rng.choice((1, 2, 3)), "at": ["500ms", "6s"],
        })  # fmt: skip


def _focus(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Have some of the seeds play a shape instead of what was drawn for them."""
    if rng.random() >= FOCUSED:
        return
    focus = Focus(rng, data, mode)
    weights = [kraft if mode == "kraft" else zookeeper for _, kraft, zookeeper in SHAPES]
    rng.choices([shape for shape, _, _ in SHAPES], weights)[0](focus)
    focus.done()
    data["expect"]["permits"] = permitted(data["workload"], False)


def permitted(workload: Iterable[dict[str, Any]], unclean: bool) -> list[str]:
    """Return the anomalies that workloads (and unclean elections) are not promised to be spared."""
    # Redelivery after a crash or a rebalance; and a commit that its client gave up on may still
    # arrive, by the abandoned connection, behind a later one of the same generation.
    permits = ["duplicate", "offset-regression"]
    for spec in workload:
        config = spec.get("config", {})
        if spec["kind"] == "consumer-group":
            if spec.get("commit", "auto") in ("auto", "first") or spec.get("handover"):
                permits.append("skipped-by-commit")
        elif config.get("acks", "all") != "all":
            permits += ["lost-write", "unseen", "nonmonotonic-send"]
    if unclean:
        permits += ["lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-poll",
                    "nonmonotonic-send", "poll-skip", "offset-regression",
                    "skipped-by-commit"]  # fmt: skip
    return sorted(dict.fromkeys(permits))


def _cluster(rng: random.Random, brokers: int, mode: str) -> dict[str, Any]:
    session = rng.choice((2000, 3000, 6000, 9000))
    config: dict[str, Any] = {
        "replica.lag.time.max.ms": rng.choice((1000, 1500, 3000, 10_000)),
        "broker.session.timeout.ms": session,
        "broker.heartbeat.interval.ms": rng.choice((300, 500, session // 4)),
        "replica.fetch.wait.max.ms": rng.choice((100, 500)),
        "replica.socket.timeout.ms": rng.choice((2000, 30_000)),
        "replica.fetch.backoff.ms": rng.choice((200, 1000)),
        "replica.high.watermark.checkpoint.interval.ms": rng.choice((500, 5000)),
        "group.initial.rebalance.delay.ms": rng.choice((0, 500, 3000)),
        "group.min.session.timeout.ms": 1000,
        "offsets.topic.num.partitions": rng.choice((1, 2, 5)),
        "offsets.topic.replication.factor": 3,
    }
    if rng.random() < 0.3:
        config["log.flush.interval.messages"] = rng.choice((1, 10))
    if rng.random() < 0.2:
        config["leader.imbalance.check.interval.seconds"] = 3
    if rng.random() < 0.2:
        config["num.io.threads"] = 1
    if rng.random() < 0.15:
        config["replica.selector.class"] = "RackAwareReplicaSelector"
    cluster: dict[str, Any] = {"brokers": brokers, "config": config}
    if mode == "zookeeper":
        _zookeeper(rng, cluster)
    else:
        _kraft(rng, cluster)
    if rng.random() < 0.3:
        cluster["racks"] = ["rack-a", "rack-b", "rack-c"]
    return cluster


def _kraft(rng: random.Random, cluster: dict[str, Any]) -> None:
    cluster["controllers"] = rng.choice((1, 3, 3))
    if rng.random() < 0.2:
        cluster["kafka-version"] = "3.9"
    if rng.random() < 0.2 and "kafka-version" not in cluster:
        cluster["features"] = {"eligible.leader.replicas.version": 1}


def _quorum(rng: random.Random, cluster: dict[str, Any]) -> None:
    """Draw combined nodes, a cluster in the middle of an upgrade, short quorum timers, and metadata
    logs so short that who was away must fetch a snapshot."""
    config = cluster["config"]
    if rng.random() < 0.2:
        cluster["combined"] = rng.randrange(1, cluster["controllers"] + 1)
    if rng.random() < 0.15 and "features" not in cluster and "kafka-version" not in cluster:
        cluster["nodes"] = {f"broker-{rng.randrange(1, 4)}": {"kafka-version": "3.9"}}
    if rng.random() < 0.3:
        config["controller.quorum.fetch.timeout.ms"] = rng.choice((1000, 1500))
        config["controller.quorum.election.timeout.ms"] = rng.choice((300, 600))
    if rng.random() < 0.3:
        config["metadata.log.max.record.bytes.between.snapshots"] = rng.choice((500, 2000))
        config["metadata.log.segment.bytes"] = rng.choice((2000, 8000))
        config["metadata.max.retention.bytes"] = 1000


def _zookeeper(rng: random.Random, cluster: dict[str, Any]) -> None:
    """Draw an ensemble; an older inter.broker.protocol.version changes the ISR in the znode and
    truncates by lookup."""
    cluster["mode"] = "zookeeper"
    cluster["kafka-version"] = rng.choice(("2.8-zk", "3.9"))
    cluster["zookeepers"] = rng.choice((1, 3, 3))
    cluster["zookeeper-config"] = {"tickTime": rng.choice((300, 500, 1000))}
    cluster["config"]["zookeeper.session.timeout.ms"] = rng.choice((2000, 3000, 6000))
    if rng.random() < 0.3:
        cluster["config"]["inter.broker.protocol.version"] = "2.6"


def _topic(rng: random.Random, brokers: int) -> dict[str, Any]:
    factor = rng.choice((1, 2, 3, 3, 3, 3))
    config: dict[str, Any] = {"min.insync.replicas": rng.randrange(1, min(factor, 2) + 1)}
    if rng.random() < 0.2:
        config["segment.bytes"] = rng.choice((2000, 10_000))
    if rng.random() < 0.1:
        config["unclean.leader.election.enable"] = True
    partitions = rng.choice((1, 1, 2, 3))
    return {
        "name": "orders",
        "partitions": partitions,
        "replication-factor": min(factor, brokers),
        "config": config,
    }


def _producer(rng: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {
        "acks": rng.choice(("all", "all", "all", "1", "0")),
        "linger.ms": rng.choice((0, 0, 5, 100)),
        "request.timeout.ms": rng.choice((1000, 3000, 10_000)),
        "delivery.timeout.ms": rng.choice((10_500, 20_000, 60_000)),
        "metadata.max.age.ms": rng.choice((5000, 30_000)),
        "max.in.flight.requests.per.connection": rng.choice((1, 5, 5)),
    }
    if config["acks"] == "all" and rng.random() < 0.1:
        config["batch.size"] = 300
    return {
        "kind": "producer",
        "count": rng.choice((1, 1, 2)),
        "rate": f"{rng.choice((3, 10, 30, 30))}/s",
        "keys": rng.choice(("none", "uniform:5")),
        "config": config,
    }


def _group(rng: random.Random, name: str) -> dict[str, Any]:
    session = rng.choice((1500, 3000, 6000, 10_000))
    strategy = rng.choice((["range"], ["roundrobin"], ["range", "roundrobin"]))
    config: dict[str, Any] = {
        "session.timeout.ms": session,
        "max.poll.interval.ms": rng.choice((10_000, 30_000)),
        "heartbeat.interval.ms": session // rng.choice((3, 6)),
        "auto.offset.reset": rng.choice(("earliest", "earliest", "latest")),
        "max.poll.records": rng.choice((1, 50, 500)),
        "auto.commit.interval.ms": rng.choice((500, 5000)),
        "request.timeout.ms": rng.choice((2000, 10_000)),
        "default.api.timeout.ms": rng.choice((5000, 20_000)),
        "metadata.max.age.ms": rng.choice((5000, 30_000)),
        "partition.assignment.strategy": strategy,
    }
    group: dict[str, Any] = {
        "kind": "consumer-group",
        "group": name,
        "count": rng.choice((1, 2, 2, 3)),
        "commit": rng.choice(("auto", "sync", "async")),
        "config": config,
    }
    if rng.random() < 0.2:
        group["processing"] = ["1ms", "20ms"]
    if rng.random() < 0.2:
        group["handover"] = True
    return group
