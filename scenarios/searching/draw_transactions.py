"""Transactions in a drawn scenario: producers that commit now and then, and a processor.

They need a topic without unclean elections. Such an election may lose a part of a transaction, and
no setting of the clients prevents that.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

OUTPUT = "outputs"

TRANSACTIONAL = 0.6
"""The share of seeds with transactions, of those that may have any."""

PROCESSING = 0.24
"""The same with a processor."""

OLD_RELEASE = 0.5
"""The share of seeds with transactions in KRaft mode whose brokers are of 3.9.

Under transaction.version 0 a producer keeps its epoch from one transaction to the next."""


def transactions(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some of the producers with acks=all use transactions, and some groups read_committed.

    In some seeds a processor takes the place of a group.
    """
    share = rng.random()
    if share >= TRANSACTIONAL or _may_lose(data):
        return
    producers = [
        each
        for each in data["workload"]
        if each["kind"] == "producer"
        and each["config"].get("acks", "all") == "all"
        and each["config"].get("enable.idempotence", True)
    ]
    if not producers:
        return
    config = data["cluster"]["config"]
    config["transaction.state.log.num.partitions"] = rng.choice((1, 3))
    config["transaction.abort.timed.out.transaction.cleanup.interval.ms"] = rng.choice((500, 2000))
    for index, producer in enumerate(producers):
        if index == 0 or rng.random() < 0.5:
            _make_transactional(rng, producer, f"writer-{index}")
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    for name in dict.fromkeys([each["group"] for each in groups]):
        if rng.random() < 0.7:
            for group in groups:
                if group["group"] == name:
                    group["config"]["isolation.level"] = "read_committed"
    _old_release(rng, data["cluster"], groups)
    if share < PROCESSING:
        add_processor(rng, data)


def _old_release(rng: random.Random, cluster: dict[str, Any], groups: list[dict[str, Any]]) -> None:
    """Let the brokers of some seeds be of a release without transaction.version 2."""
    named = cluster.keys() & {"kafka-version", "features", "nodes"}
    modern = any(each["config"].get("group.protocol") == "consumer" for each in groups)
    if cluster.get("mode") != "zookeeper" and not named and not modern:
        if rng.random() < OLD_RELEASE:
            cluster["kafka-version"] = "3.9"


def _may_lose(data: dict[str, Any]) -> bool:
    """Return whether the configuration lets committed records be lost."""
    unclean = "unclean.leader.election.enable"
    permits = data["expect"]["permits"]
    settings = [data["cluster"]["config"], data["topics"][0]["config"]]
    elected = any(each.get("election") == "unclean" for each in data.get("operations", ()))
    return "inconsistent-offsets" in permits or elected or any(unclean in own for own in settings)


def _make_transactional(rng: random.Random, producer: dict[str, Any], name: str) -> None:
    producer["transactional-id"] = name
    producer["transaction-records"] = rng.choice((1, 5, 20, 60))
    producer["transaction-time"] = rng.choice(("100ms", "1s", "10s"))
    producer["abort-share"] = rng.choice((0, 0.1, 0.3))
    producer["config"]["transaction.timeout.ms"] = rng.choice((600, 2000, 5000, 10_000))
    if producer["config"].get("max.in.flight.requests.per.connection", 5) > 5:
        del producer["config"]["max.in.flight.requests.per.connection"]


def add_processor(rng: random.Random, data: dict[str, Any]) -> None:
    """Let a group of processors read the topic, and write what they read to another one."""
    topic = data["topics"][0]
    replicas = len(topic["assignment"][0]) if topic.get("assignment") else 0
    factor = topic.get("replication-factor", replicas or 1)
    if "leaderless" in data["expect"].get("never", ()):
        factor = 3  # two brokers are struck at once, and no partition may be without a leader
    config = {"min.insync.replicas": topic["config"].get("min.insync.replicas", 1)}
    output = {"name": OUTPUT, "partitions": rng.choice((1, 2)), "replication-factor": factor}
    data["topics"].append(output | {"config": config})
    session = rng.choice((1500, 3000, 6000))
    data["workload"].append({
        "kind": "processor",
        "group": "processors",
        "count": rng.choice((1, 2)),
        "topics": [topic["name"]],
        "output": OUTPUT,
        "abort-share": rng.choice((0, 0.1)),
        "config": {
            "session.timeout.ms": session,
            "heartbeat.interval.ms": session // 3,
            "max.poll.interval.ms": 10_000,
            "max.poll.records": rng.choice((5, 500)),
            "default.api.timeout.ms": 5000,
            "request.timeout.ms": 2000,
            "metadata.max.age.ms": 5000,
        },
        "producer-config": {
            "transaction.timeout.ms": rng.choice((2000, 5000)),
            "request.timeout.ms": 2000,
            "delivery.timeout.ms": 10_000,
            "metadata.max.age.ms": 5000,
        },
    })  # fmt: skip


def add_processors(rng: random.Random, data: dict[str, Any]) -> None:
    """Let several processors read the topic: each takes over what another one had.

    A session often ends before a transaction does, so that the partitions of a processor that
    sleeps are given to another one while its transaction is open.
    """
    add_processor(rng, data)
    drawn = data["workload"][-1]
    drawn["count"] = rng.choice((2, 2, 3))
    drawn["producer-config"]["transaction.timeout.ms"] = rng.choice((2000, 5000, 10_000))


STALLED = 0.5
"""The share of the seeds with transactions in which what a transaction waits for comes late."""

LATE = ("Produce", "Produce", "AddPartitionsToTxn", "AddOffsetsToTxn", "TxnOffsetCommit", "EndTxn")
"""Requests of a transactional producer that are late, or whose answers are."""

MOMENTS = ("TransactionBegun", "TransactionSent", "TransactionSent", "TransactionEnding")


def stalls(rng: random.Random, data: dict[str, Any]) -> None:
    """Let what transactions wait for come late, in half of the seeds that have any.

    A producer pauses for about as long as its transaction.timeout.ms. Or its requests are under way
    for longer than it waits for them: in half of these seeds it gives up batches soon. Or a
    coordinator does not hear of its markers, and goes away. Other faults hardly ever meet a
    transaction that is open, and last less than its timeout.
    """
    share = rng.random()
    writers = [each for each in data["workload"] if timeout_of(each)]
    if not writers or share >= STALLED or is_about_its_faults(data):
        return
    for _ in range(rng.choice((1, 2))):
        stall = rng.choice((_pause, _late, _late, _unheard_markers))
        data["faults"] += stall(rng, rng.choice(writers), data["cluster"]["brokers"])
    for writer in writers:
        if writer["kind"] == "producer" and share < STALLED / 2:
            request, linger = rng.choice((400, 1000)), writer["config"].get("linger.ms", 0)
            writer["config"]["request.timeout.ms"] = request
            writer["config"]["delivery.timeout.ms"] = request + linger + rng.choice((200, 2000))


def timeout_of(workload: dict[str, Any]) -> int:
    """Return transaction.timeout.ms of a transactional producer or a processor, 0 of others."""
    config = workload.get("producer-config", workload["config"])
    return int(config.get("transaction.timeout.ms", 0))


def _moment(rng: random.Random) -> dict[str, Any]:
    return {"fact": rng.choice(MOMENTS), "count": rng.randrange(1, 60)}


def _pause(rng: random.Random, writer: dict[str, Any], _: int) -> list[dict[str, Any]]:
    timeout = timeout_of(writer)
    lasts = [f"{timeout // 2}ms", f"{timeout * 3 // 2}ms"]
    return [{"kind": "gc-pause", "node": "@node", "for": lasts, "when": _moment(rng)}]


def _late(rng: random.Random, _: dict[str, Any], __: int) -> list[dict[str, Any]]:
    direction = rng.choice(("request", "request", "response"))
    return [{
        "kind": "hold", "node": "@node", "api": rng.choice(LATE), "direction": direction,
        "for": ["300ms", "4s"], "when": _moment(rng),
    }]  # fmt: skip


def _unheard_markers(
    rng: random.Random, writer: dict[str, Any], brokers: int
) -> list[dict[str, Any]]:
    transactional_id = writer.get("transactional-id")
    if transactional_id is None or writer.get("count", 1) > 1:
        return _late(rng, writer, brokers)
    node = f"transaction-coordinator:{transactional_id}"
    begins = rng.randrange(500, 5000)
    gone = begins + rng.randrange(200, 1500)
    return [
        {"kind": "hold", "node": node, "api": "WriteTxnMarkers", "direction": "response",
         "peers": [f"broker-{number + 1}" for number in range(brokers)],
         "at": f"{begins}ms", "for": ["2s", "5s"]},
        {"kind": rng.choice(("crash", "gc-pause", "isolate")), "node": node, "at": f"{gone}ms",
         "for": ["500ms", "4s"], "guarded": True},
    ]  # fmt: skip
