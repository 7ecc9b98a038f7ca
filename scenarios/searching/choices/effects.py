"""Replace or remove drawn faults and settings that could have no effect in their scenario.

The parts of a scenario are drawn independently. So a fault may wait for a state that only groups of
the consumer protocol have, although all groups are classic. It may hold an API that no server of
its mode sends, and a property may belong to the other mode. Such a draw has no effect.

- A trigger that no host ever records is replaced by one of the same kind of host.
- A held or cut API that nobody sends is replaced by the API with the same task, and a nemesis cuts
  connections of its own mode.
- If records expire, retention begins soon after a server's start, and not after 30 s, which is
  longer than most runs. 2.8 has no setting for that.
- A property that the servers of its mode do not read is removed. inter.broker.protocol.version is
  one with KRaft: 3.9 refuses a value below 3.0 at its start (KafkaConfig, "non-KRaft version"), 4.0
  does not have it. There an old metadata.version replaces it.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.choices.triggers import Sights
from kafkasim.scenarios.searching.draw_faults import PURPOSES
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

ONLY_KRAFT = (
    "broker.session.timeout.ms", "broker.heartbeat.interval.ms",
    "initial.broker.registration.timeout.ms", "metadata.max.idle.interval.ms", "metadata.log.dir",
)  # fmt: skip
"""Properties of servers that those with ZooKeeper do not read."""

PROTOCOL = "inter.broker.protocol.version"

METADATA_VERSIONS = (7, 11, 12, 16, 17, 21)
"""3.3-IV3, which is the oldest that 4.0 supports; before and after ISR shrinks stopped to raise the
leader epoch (12), and before and after assigned log directories (17); 3.9-IV0."""

RETENTION = ("retention.ms", "retention.bytes")

CLASSIC_APIS = ("JoinGroup", "SyncGroup", "Heartbeat")
CLASSIC_STATES = ("PreparingRebalance", "CompletingRebalance")
MODERN_STATES = ("Assigning", "Reconciling")


def effects(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let what was drawn have an effect."""
    if not is_about_its_faults(data):
        within_reach(rng, data)
    config = data["cluster"]["config"]
    for each in data["faults"]:
        if mode == "zookeeper" and "cut-purpose" in each.get("kinds", ()):
            each["purposes"] = list(PURPOSES["zookeeper"])
    if _expires(data) and data["cluster"].get("kafka-version") != "2.8-zk":
        config.setdefault("log.initial.task.delay.ms", rng.choice((0, 500, 2000)))
        config.setdefault("log.retention.check.interval.ms", 1000)
    if mode == "zookeeper":
        for key in ONLY_KRAFT:
            config.pop(key, None)
    elif config.pop(PROTOCOL, None) is not None and _may_be_old(data):
        data["cluster"]["features"] = {"metadata.version": rng.choice(METADATA_VERSIONS)}


def within_reach(rng: random.Random, data: dict[str, Any]) -> None:
    """Let triggers wait for facts that somebody records, and faults hit APIs that somebody uses."""
    groups = _Groups(data)
    sights = Sights(rng, data)
    for each in (*data["faults"], *data.get("operations", ())):
        if "when" in each and groups.never_record(each["when"]):
            begins = {key: each["when"][key] for key in ("after",) if key in each["when"]}
            each["when"] = _instead(each["when"], sights) | begins
    for each in data["faults"]:
        _reach(each, data, groups)


def _expires(data: dict[str, Any]) -> bool:
    """Return whether records are deleted by age or size; the cleaner has that of compacted logs."""
    changed = [each for each in data.get("operations", ()) if each["kind"] == "alter-config"]
    configs = [each.get("config", {}) for each in (*data["topics"], *changed)]
    return any(config.get(key, -1) != -1 for config in configs for key in RETENTION)


class _Groups:
    """Which kinds of groups a scenario has."""

    def __init__(self, data: dict[str, Any]) -> None:
        kinds = ("consumer-group", "processor")
        groups = [each for each in data["workload"] if each["kind"] in kinds]
        kept = [each for each in groups if each.get("protocol") != "zookeeper"]
        modern = [each for each in kept if each["config"].get("group.protocol") == "consumer"]
        migrates = any(each["kind"] == "rolling-deploy" for each in data.get("operations", ()))
        self.kept = bool(kept)
        self.modern = bool(modern) or migrates
        self.classic = len(modern) < len(kept) or migrates
        self.processors = any(each["kind"] == "processor" for each in groups)

    def never_record(self, when: dict[str, Any]) -> bool:
        """Return whether no coordinator and no client of these groups records such a fact."""
        wanted, named = when.get("fact"), when.get("fields", {})
        if wanted == "TransactionOffsets":
            return not self.processors
        if wanted not in ("GroupState", "MemberRequest", "OffsetCommitted"):
            return False
        if named.get("state") in MODERN_STATES:
            return not self.modern
        if named.get("state") in CLASSIC_STATES or named.get("api") in CLASSIC_APIS:
            return not self.classic
        return not self.kept


def _instead(when: dict[str, Any], sights: Sights) -> dict[str, Any]:
    """Return a trigger of a client for one of a client, and else one of a leader."""
    if when["fact"] == "TransactionOffsets":
        return {"fact": "HostStarted", "at-least": {"incarnation": 1}}
    return {"fact": "HighWatermark", "fields": dict(sights.name), "count": sights.often()}


def _reach(fault: dict[str, Any], data: dict[str, Any], groups: _Groups) -> None:
    """Let a fault hold or cut an API that somebody sends.

    Before inter.broker.protocol.version 2.7 a leader writes the ISR to ZooKeeper itself.
    """
    cluster = data["cluster"]
    by_leaders = cluster.get("mode") == "zookeeper" and PROTOCOL in cluster["config"]
    if by_leaders and fault.get("api") == "AlterPartition":
        fault["api"] = "ZkOperation"
    if by_leaders and fault.get("purpose") == "alter-partition":
        fault["purpose"] = "zookeeper"
    if fault.get("api") in CLASSIC_APIS and groups.modern and not groups.classic:
        fault["api"] = "ConsumerGroupHeartbeat"


def _may_be_old(data: dict[str, Any]) -> bool:
    """Return whether nothing in a KRaft scenario needs a newer metadata.version.

    Groups of the consumer protocol need 22, several log directories 17, a changing set of voters
    3.9, and eligible leader replicas 23.
    """
    cluster = data["cluster"]
    kinds = [each["kind"] for each in data.get("operations", ())]
    needed = ("update-features", "upgrade", "rolling-deploy", "add-voter", "remove-voter")
    return not (
        _Groups(data).modern
        or any(each["kind"] == "share-group" for each in data["workload"])
        or any(kind in needed for kind in kinds)
        or cluster.keys() & {"features", "nodes", "standby-controllers"}
        or "log.dirs" in cluster["config"]
    )
