"""The cluster of a drawn scenario, and its topic."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

COMPACTED = 0.18
"""The share of seeds whose brokers clean logs."""

TABLES = 0.2
"""The share of seeds with transactional producers that keep a table."""

COUNTED = ("store", "app", "audit", "output")
"""Keys of workloads whose results or outputs are counted."""


def cluster(rng: random.Random, brokers: int, mode: str) -> dict[str, Any]:
    """Draw servers with timeouts of seconds, so that sessions end and replicas fall behind soon."""
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
    drawn: dict[str, Any] = {"brokers": brokers, "config": config}
    if mode == "zookeeper":
        _zookeeper(rng, drawn)
    else:
        _kraft(rng, drawn)
    if rng.random() < 0.3:
        drawn["racks"] = ["rack-a", "rack-b", "rack-c"]
    return drawn


def _kraft(rng: random.Random, cluster: dict[str, Any]) -> None:
    cluster["controllers"] = rng.choice((1, 3, 3))
    if rng.random() < 0.2:
        cluster["kafka-version"] = "3.9"
    elr = rng.random()
    if elr < 0.1 and "kafka-version" not in cluster:
        cluster["features"] = {"eligible.leader.replicas.version": 1}
    elif elr < 0.25 and "kafka-version" not in cluster:
        cluster["kafka-version"] = "4.1"  # has them on


def _zookeeper(rng: random.Random, cluster: dict[str, Any]) -> None:
    """Draw an ensemble, and in some seeds an older inter.broker.protocol.version.

    With that, leaders write the ISR to the znode and followers truncate by OffsetsForLeaderEpoch.
    """
    cluster["mode"] = "zookeeper"
    cluster["kafka-version"] = rng.choice(("2.8-zk", "3.9"))
    cluster["zookeepers"] = rng.choice((1, 3, 3))
    cluster["zookeeper-config"] = {"tickTime": rng.choice((300, 500, 1000))}
    cluster["config"]["zookeeper.session.timeout.ms"] = rng.choice((2000, 3000, 6000))
    if rng.random() < 0.3:
        cluster["config"]["inter.broker.protocol.version"] = "2.6"


def add_quorum(rng: random.Random, cluster: dict[str, Any]) -> None:
    """Draw what only KRaft has, each in some of the seeds.

    That is combined nodes, one broker of an older release, short quorum timers, and metadata logs
    so short that a node that was away must fetch a snapshot.
    """
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


def topic(rng: random.Random, brokers: int) -> dict[str, Any]:
    """Draw the topic that all workloads use."""
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


def compaction(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the brokers of some seeds clean logs while they run: of internal topics, or of all.

    A compacted topic refuses records without keys, so all producers get some. Topics of users are
    compacted only where nothing counts results or outputs, which are not judged there, and where no
    old consumer reads: retention moves one to a later offset while older records are in its queue,
    and then back (ConsumerFetcherThread.handleOffsetOutOfRange).
    """
    if rng.random() >= COMPACTED or is_about_its_faults(data):
        return
    config = _cleaner(rng, data)
    if rng.random() < 0.5:  # the cleaner's map has room for few keys, so cleanings end anywhere
        config["log.cleaner.dedupe.buffer.size"] = rng.choice((150, 600, 3000))
        config["log.cleaner.io.buffer.load.factor"] = 0.9
    if rng.random() < 0.6 and _may_be_cleaned(data):
        for topic in data["topics"]:
            _compact(rng, topic, (2000, 6000))
        for each in data["workload"]:
            if each["kind"] == "producer":
                each["keys"] = rng.choice(("uniform:20", "zipf:50:1"))
                each["tombstone-share"] = rng.choice((0.0, 0.2))


def _cleaner(rng: random.Random, data: dict[str, Any]) -> dict[str, Any]:
    """Let the brokers clean internal topics; return their settings."""
    config: dict[str, Any] = data["cluster"].setdefault("config", {})
    config["log.cleaner.backoff.ms"] = rng.choice((300, 1000))
    config["log.cleaner.delete.retention.ms"] = rng.choice((500, 2000, 86400000))
    config["offsets.topic.segment.bytes"] = rng.choice((2000, 6000))
    config["transaction.state.log.segment.bytes"] = rng.choice((2000, 6000))
    return config


def _may_be_cleaned(data: dict[str, Any]) -> bool:
    """Return whether no workload needs every record of the topics of users."""
    counted = any(key in each for each in data["workload"] for key in COUNTED)
    return not counted and all(each.get("protocol") != "zookeeper" for each in data["workload"])


def _compact(rng: random.Random, topic: dict[str, Any], sizes: tuple[int, ...]) -> None:
    own = topic.setdefault("config", {})
    own["cleanup.policy"] = "compact,delete"
    own.setdefault("segment.bytes", rng.choice(sizes))
    own["min.cleanable.dirty.ratio"] = rng.choice((0.1, 0.5))


def tables(rng: random.Random, data: dict[str, Any]) -> None:
    """Let writers of some seeds keep a table: a compacted topic, written in transactions.

    Some transactions abort, and the cleaner's map has room for a part of the keys, so that
    cleanings end anywhere: also within a segment, and between a transaction's records and its
    marker. A group that starts late reads what they have left, and only what is committed.
    """
    writers = [each for each in data["workload"] if "transactional-id" in each]
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    if rng.random() >= TABLES or not writers or not groups or not _may_be_cleaned(data):
        return
    if is_about_its_faults(data):
        return
    config = _cleaner(rng, data)
    config["log.cleaner.dedupe.buffer.size"] = rng.choice((150, 150, 600))
    config["log.cleaner.io.buffer.load.factor"] = 0.9
    for topic in data["topics"]:
        _compact(rng, topic, (2000, 4000))
    for each in data["workload"]:
        if each["kind"] == "producer":
            each["keys"] = rng.choice(("uniform:50", "uniform:1000", "zipf:50:1"))
            each["tombstone-share"] = rng.choice((0.0, 0.2))
    for writer in writers:
        writer["rate"] = rng.choice(("20/s", "40/s"))
        writer["transaction-records"] = rng.choice((1, 4, 10))
        writer["abort-share"] = rng.choice((0.1, 0.3, 0.5))
    reader = rng.choice(groups)
    settings = {**reader["config"], "auto.offset.reset": "earliest"}
    settings["isolation.level"] = "read_committed"
    settings.pop("group.instance.id", None)
    late = {**reader, "group": "table-reader", "count": 1, "config": settings}
    late["start"] = f"{rng.randrange(3000, 9000)}ms"
    data["workload"].append(late)
