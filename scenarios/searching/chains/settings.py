"""Settings that some chains change: releases, quorum, disks, clients, retention."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.shapes.focus import Focus

Setting = Callable[[Focus], None]

RACKS = ["rack-a", "rack-b", "rack-c"]


def quorum_size(focus: Focus) -> None:
    """The quorum has five, three or one voters, or the ensemble as many servers."""
    key = "controllers" if focus.mode == "kraft" else "zookeepers"
    focus.cluster[key] = focus.rng.choice((1, 3, 5))
    if focus.mode == "kraft":
        focus.cluster["combined"] = min(focus.cluster.get("combined", 0), focus.cluster[key])


def own_controllers(focus: Focus) -> None:
    """Controllers are no brokers: what happens to a broker does not happen to the quorum."""
    focus.cluster["combined"] = 0


def old_release(focus: Focus) -> None:
    """All servers run the older release of their mode."""
    focus.cluster.pop("features", None)
    focus.cluster.pop("nodes", None)
    focus.cluster["kafka-version"] = "2.8-zk" if focus.mode == "zookeeper" else "3.9"


def old_protocol(focus: Focus) -> None:
    """Followers truncate by OffsetsForLeaderEpoch; with ZooKeeper, leaders write the ISR."""
    focus.config["inter.broker.protocol.version"] = "2.6"


def eligible_leaders(focus: Focus) -> None:
    """ELR is on from the start (KIP-966)."""
    focus.cluster.pop("kafka-version", None)
    focus.cluster.pop("nodes", None)
    focus.cluster["features"] = {"eligible.leader.replicas.version": 1}


def flushed(focus: Focus) -> None:
    """Each batch is flushed before it is acknowledged."""
    focus.config["log.flush.interval.messages"] = 1


def rack_readers(focus: Focus) -> None:
    """Consumers read from the replica in their own rack (KIP-392)."""
    focus.cluster["racks"] = list(RACKS)
    focus.config["replica.selector.class"] = "RackAwareReplicaSelector"
    for each in focus.data["workload"]:
        if _coordinated(each):
            rack = focus.rng.choice(RACKS)
            each["rack"] = rack
            each["config"] = {**each["config"], "client.rack": rack, "metadata.max.age.ms": 1000}


def static_members(focus: Focus) -> None:
    """Each member of the groups is static (KIP-345): it has an instance id of its own."""
    workload: list[dict[str, Any]] = []
    for each in focus.data["workload"]:
        if not _coordinated(each):
            workload.append(each)
            continue
        for number in range(each["count"]):
            config = {**each["config"], "group.instance.id": f"{each['group']}-{number + 1}"}
            workload.append({**each, "count": 1, "config": config})
    focus.data["workload"] = workload


def quick_groups(focus: Focus) -> None:
    """Members have short sessions and little time between polls, and rebalance at once."""
    focus.config["group.initial.rebalance.delay.ms"] = 0
    for each in focus.data["workload"]:
        if _coordinated(each):
            session = focus.rng.choice((1000, 2000))
            each["config"] = {
                **each["config"], "session.timeout.ms": session,
                "heartbeat.interval.ms": session // 4, "auto.commit.interval.ms": 200,
            }  # fmt: skip


def full_batches(focus: Focus) -> None:
    """Batches have many records: producers linger while much is sent."""
    for each in focus.data["workload"]:
        if each["kind"] == "producer":
            each["rate"] = "200/s"
            each["config"] = {**each["config"], "linger.ms": 100, "batch.size": 16_384}


def short_segments(focus: Focus) -> None:
    """A segment holds a few batches.

    A fetch reads one segment. While a consumer has a record of it left, its next fetch asks for the
    other partitions only, and waits when these have none; so it must not wait for long.
    """
    focus.data["topics"][0]["config"]["segment.bytes"] = focus.rng.choice((400, 1000, 4000))
    for each in focus.data["workload"]:
        if _coordinated(each):
            each["config"] = {**each["config"], "fetch.max.wait.ms": 30}


def retention(focus: Focus) -> None:
    """Old segments are deleted all the time, by age or by size."""
    short_segments(focus)
    config = focus.data["topics"][0]["config"]
    config.update(focus.rng.choice(({"retention.ms": 1000}, {"retention.bytes": 1500})))
    focus.config["log.retention.check.interval.ms"] = focus.rng.choice((300, 1000))


def rebalanced_leaders(focus: Focus) -> None:
    """The controller moves leaderships back to preferred leaders every second."""
    focus.config["leader.imbalance.check.interval.seconds"] = 1


def _coordinated(workload: dict[str, Any]) -> bool:
    """Return whether a workload is a group with a coordinator, not one in ZooKeeper."""
    return workload["kind"] == "consumer-group" and workload.get("protocol") != "zookeeper"


SETTINGS: dict[str, tuple[tuple[Setting, float], ...]] = {
    mode: (
        (quorum_size, 0.5),
        (old_release, 0.5),
        (old_protocol, 0.5),
        *(((own_controllers, 0.7), (eligible_leaders, 0.25)) if mode == "kraft" else ()),
        (flushed, 0.2),
        (rack_readers, 0.2),
        (static_members, 0.2),
        (quick_groups, 0.3),
        (full_batches, 0.1),
        (short_segments, 0.15),
        (retention, 0.1),
        (rebalanced_leaders, 0.15),
    )
    for mode in ("kraft", "zookeeper")
}
"""Each setting with the share of chains that have it."""
