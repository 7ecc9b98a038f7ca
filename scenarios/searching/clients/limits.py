"""Timers, buffers and thresholds that no run of a few seconds reaches with Kafka's defaults.

Kafka forgets offsets after a week and a producer after a day, a coordinator reads five megabytes at
once, a producer retries for two minutes. A short run never reaches such a limit, so some seeds
lower one or two of them. A limit is not lowered below what Kafka needs to keep its guarantees: an
idempotent producer's state must outlive its retries.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

Limit = Callable[[random.Random, dict[str, Any]], None]


def expiring_offsets(rng: random.Random, data: dict[str, Any]) -> None:
    """Coordinators look for expired offsets all the time; none is old enough.

    They also delete groups that have neither members nor offsets then. A member that still believes
    in such a group gets GROUP_ID_NOT_FOUND for its commit, which ends its application
    (ConsumerCoordinator.OffsetCommitResponseHandler); judging/failures.py.
    """
    data["cluster"]["config"]["offsets.retention.check.interval.ms"] = rng.choice((200, 1000))


def small_loads(rng: random.Random, data: dict[str, Any]) -> None:
    """A coordinator needs several reads to load its partition."""
    config = data["cluster"]["config"]
    config["offsets.load.buffer.size"] = rng.choice((300, 1000, 4000))
    config["transaction.state.log.load.buffer.size"] = rng.choice((300, 1000, 4000))


def small_fetches(rng: random.Random, data: dict[str, Any]) -> None:
    """A response has room for a batch or two, so who is behind catches up step by step."""
    config = data["cluster"]["config"]
    config["replica.fetch.max.bytes"] = rng.choice((300, 1000, 4000))
    for each in data["workload"]:
        if each["kind"] == "consumer-group" and "protocol" not in each:
            each["config"]["max.partition.fetch.bytes"] = rng.choice((300, 1000, 4000))


def strict_coordinators(rng: random.Random, data: dict[str, Any]) -> None:
    """Coordinators cannot write their logs while one or two brokers are out of their ISRs.

    The offsets topic has the brokers' min.insync.replicas, the transaction log its own. Offsets of
    consumer groups (KIP-848) are left alone: a member that leaves such a group while its
    coordinator cannot write stays in it without a session, and so for good
    (GroupMetadataManager.consumerGroupFenceMember cancels its timers before the append).
    """
    config = data["cluster"]["config"]
    config["transaction.state.log.min.isr"] = rng.choice((2, 3, 3))
    protocols = [each["config"].get("group.protocol", "classic") for each in data["workload"]]
    deployed = any(each["kind"] == "rolling-deploy" for each in data.get("operations", ()))
    if "consumer" in protocols or deployed:
        return
    config["min.insync.replicas"] = rng.choice((2, 3))
    for topic in data["topics"]:  # those of users stay as they are
        topic.setdefault("config", {}).setdefault("min.insync.replicas", 1)


def forgotten_producers(rng: random.Random, data: dict[str, Any]) -> None:
    """Logs forget producers that are silent for seconds.

    Without the state a log takes a batch again that comes late, so producers that are idempotent
    alone keep Kafka's day. A transaction's late batch is refused by verification, or for its epoch
    (KIP-890), which 2.8 does not have.
    """
    producers = [each for each in data["workload"] if each["kind"] == "producer"]
    old = data["cluster"].get("kafka-version") == "2.8-zk"
    if old or any("transactional-id" not in each for each in producers):
        return
    config = data["cluster"]["config"]
    config["producer.id.expiration.ms"] = rng.choice((1500, 3000))
    config["producer.id.expiration.check.interval.ms"] = rng.choice((20, 200))


def impatient_producers(rng: random.Random, data: dict[str, Any]) -> None:
    """Producers give up a batch after about a second, while others of theirs are in flight."""
    for each in data["workload"]:
        if each["kind"] == "producer":
            request, linger = rng.choice((300, 1000)), each["config"].get("linger.ms", 5)
            each["config"]["request.timeout.ms"] = request
            each["config"]["delivery.timeout.ms"] = request + linger + rng.choice((0, 200, 1000))


def impatient_groups(rng: random.Random, data: dict[str, Any]) -> None:
    """A rebalance waits a second or two for its members, whose sessions are longer.

    Members that need time for each record poll seldom, and are left alone.
    """
    for each in data["workload"]:
        if each["kind"] == "consumer-group" and not each.keys() & {"protocol", "processing"}:
            config = each["config"]
            config["max.poll.interval.ms"] = rng.choice((1500, 2500))
            if "session.timeout.ms" in config:
                config["session.timeout.ms"] = max(6000, config["session.timeout.ms"])


LIMITS: tuple[tuple[Limit, float], ...] = (
    (expiring_offsets, 0.15),
    (small_loads, 0.2),
    (small_fetches, 0.1),
    (strict_coordinators, 0.15),
    (forgotten_producers, 0.3),
    (impatient_producers, 0.2),
    (impatient_groups, 0.2),
)
"""Each limit with the share of seeds that lower it."""


def limits(rng: random.Random, data: dict[str, Any]) -> None:
    """Lower some limits of a drawn scenario that expects nothing but Kafka's promises."""
    if is_about_its_faults(data):
        return
    for limit, share in LIMITS:
        if rng.random() < share:
            limit(rng, data)
