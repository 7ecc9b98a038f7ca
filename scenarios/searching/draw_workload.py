"""The workloads of a drawn scenario: producers and consumer groups, and what they may permit."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults


def workloads(rng: random.Random) -> list[dict[str, Any]]:
    """Draw one or two workloads of producers and one or two consumer groups."""
    drawn = [_producer(rng) for _ in range(rng.choice((1, 1, 2)))]
    return drawn + [_group(rng, f"group-{i}") for i in range(rng.choice((1, 1, 2)))]


def permitted(workload: Iterable[dict[str, Any]], unclean: bool) -> list[str]:
    """Return the anomalies that Kafka does not rule out for these workloads.

    ``unclean`` is whether the topic allows unclean elections.
    """
    # Records are delivered again after a crash or a rebalance. A commit that its client gave up
    # on may still arrive on the abandoned connection, after a later one of the same generation.
    # Retention, where it is drawn, asks nobody what was read.
    permits = ["duplicate", "lost-to-retention", "offset-regression"]
    for spec in workload:
        config = spec.get("config", {})
        if spec["kind"] == "consumer-group":
            if skips_by_commit(spec):
                permits.append("skipped-by-commit")
        elif config.get("acks", "all") != "all":
            permits += ["lost-write", "unseen", "nonmonotonic-send"]
    if unclean:
        permits += ["lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-poll",
                    "nonmonotonic-send", "poll-skip", "offset-regression",
                    "skipped-by-commit"]  # fmt: skip
    return sorted(dict.fromkeys(permits))


def skips_by_commit(workload: dict[str, Any]) -> bool:
    """Return whether these clients commit records before they have processed them.

    An automatic commit covers all that poll() has returned.
    """
    if workload["kind"] != "consumer-group":
        return False
    handed = workload.get("handover", False) and workload.get("commit") != "none"
    return handed or workload.get("commit", "auto") in ("auto", "first")


def _producer(rng: random.Random) -> dict[str, Any]:
    config: dict[str, Any] = {
        "acks": rng.choice(("all", "all", "all", "1", "0")),
        "linger.ms": rng.choice((0, 0, 5, 100)),
        "request.timeout.ms": rng.choice((1000, 3000, 10_000)),
        "delivery.timeout.ms": rng.choice((10_500, 20_000, 30_000)),
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


ASSIGNORS = (
    ("range",),
    ("range", "cooperative-sticky"),
    ("roundrobin", "range"),
    ("sticky",),
    ("cooperative-sticky",),
    ("cooperative-sticky",),
)
"""What partition.assignment.strategy is drawn from; the last two are cooperative."""


def _group(rng: random.Random, name: str) -> dict[str, Any]:
    session = rng.choice((1500, 3000, 6000, 10_000))
    strategy = list(rng.choice(ASSIGNORS))
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


def consumer_groups(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some of the groups use the consumer protocol (KIP-848), where all brokers have it.

    The brokers have the session timeout and the heartbeat interval, so all such groups share them.
    Fewer groups of static members do: they permit more (:func:`permit_unreleased`).
    """
    cluster = data["cluster"]
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    if not _has_consumer_protocol(cluster) or rng.random() < 0.3:
        return
    _broker_timeouts(rng, cluster["config"])
    static = {each["group"] for each in groups if "group.instance.id" in each["config"]}
    names = sorted({each["group"] for each in groups})
    chosen_groups = [name for name in names if rng.random() < (0.2 if name in static else 0.75)]
    permit_unreleased(data, chosen_groups)
    for group in groups:
        if group["group"] in chosen_groups:
            config = group["config"]
            for name in _CLASSIC_SETTINGS:
                config.pop(name, None)
            config["group.protocol"] = "consumer"
            if rng.random() < 0.3:
                config["group.remote.assignor"] = rng.choice(("uniform", "range"))


def permit_unreleased(data: dict[str, Any], names: Sequence[str]) -> None:
    """Permit what Kafka does to static members of the consumer protocol that come back too soon.

    One that has crashed, or whose join had no answer, is refused with UNRELEASED_INSTANCE_ID until
    its session is over (KAFKA.md, 3.4), which ends its application. So the last member of each
    group is dynamic: somebody must read to the end.
    """
    for name in names:
        members = [each for each in data["workload"] if each.get("group") == name]
        if any("group.instance.id" in each["config"] for each in members):
            members[-1]["config"].pop("group.instance.id", None)
            permits = {*data["expect"].get("permits", ()), "application-failed"}
            data["expect"]["permits"] = sorted(permits)


_CLASSIC_SETTINGS = ("session.timeout.ms", "heartbeat.interval.ms", "partition.assignment.strategy")


def _has_consumer_protocol(cluster: dict[str, Any]) -> bool:
    """Return whether all brokers serve the consumer protocol (KIP-848)."""
    old = "3.9" in (cluster.get("kafka-version"), *_versions(cluster))
    return cluster.get("mode") != "zookeeper" and not old


def _broker_timeouts(rng: random.Random, config: dict[str, Any]) -> None:
    """Draw the timeouts that brokers set for members of consumer groups."""
    session = rng.choice((1500, 3000, 6000, 10_000))
    set_broker_timeouts(config, session, session // rng.choice((3, 6)))


def set_broker_timeouts(config: dict[str, Any], session: int, interval: int) -> None:
    """Let brokers set these times, in ms, for members of consumer groups, and allow no less."""
    for name, chosen in (("session.timeout.ms", session), ("heartbeat.interval.ms", interval)):
        config[f"group.consumer.min.{name}"] = chosen
        config[f"group.consumer.{name}"] = chosen


def _versions(cluster: dict[str, Any]) -> list[str | None]:
    return [node.get("kafka-version") for node in cluster.get("nodes", {}).values()]


def patterns(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some groups subscribe by an expression that matches the scenario's topic.

    It changes who finds out about topics, and nothing that a group reads: the consumer from its
    metadata (subscribe(Pattern)), or the coordinator (SubscriptionPattern, KIP-848). Old consumers
    have no pattern. Few groups use the consumer protocol, so more of those do.
    """
    name = data["topics"][0]["name"]
    for group in [each for each in data["workload"] if each["kind"] == "consumer-group"]:
        modern = group["config"].get("group.protocol") == "consumer"
        if rng.random() < (0.5 if modern else 0.25) and not group.keys() & {"topics", "protocol"}:
            key = rng.choice(("subscription-pattern", "pattern")) if modern else "pattern"
            group[key] = rng.choice((name, f"{name[:2]}.*", f"({name}|other)"))


def rack_readers(rng: random.Random, data: dict[str, Any]) -> None:
    """Let consumers be in racks, where brokers send them to the replica in their own (KIP-392)."""
    cluster = data["cluster"]
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    if "replica.selector.class" not in cluster["config"] or any("rack" in each for each in groups):
        return
    cluster["racks"] = ["rack-a", "rack-b", "rack-c"]
    for group in [each for each in groups if "protocol" not in each]:
        group["rack"] = group["config"]["client.rack"] = rng.choice(cluster["racks"])


OF_COORDINATORS = (
    "CoordinatorLoaded", "GroupAssigned", "GroupState", "LoadInProgress", "MemberRequest",
    "OffsetFetched",
)  # fmt: skip
"""Facts that only a group with a coordinator has."""

EVER = 1_000_000
"""Milliseconds, or attempts, that no run lasts."""


def old_consumers(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some groups live in ZooKeeper, in ZooKeeper mode: old consumers.

    They take the place of groups that nothing else in the scenario is about: no fault waits for
    their coordinator or for what it does, and no operation names them. Their attempts at a
    rebalance, and the wait for the first session, outlast any run. A consumer that gives up stays
    without partitions in Kafka, too (KAFKA.md, 3.5), and one that gives up its first connection
    ends its application.
    """
    share = rng.random()
    if data["cluster"].get("mode") != "zookeeper" or share >= 0.35 or _about_groups(data):
        return
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    for name in dict.fromkeys([each["group"] for each in groups]):
        if rng.random() < 0.7:
            strategy = rng.choice(("range", "roundrobin"))
            timing = {
                "zookeeper.session.timeout.ms": rng.choice((2000, 3000, 6000)),
                "auto.commit.interval.ms": rng.choice((500, 2000, 60_000)),
                "rebalance.backoff.ms": rng.choice((200, 1000, 2000)),
            }
            for group in groups:
                if group["group"] == name:
                    _make_old(group, {**timing, "partition.assignment.strategy": strategy})


def _about_groups(data: dict[str, Any]) -> bool:
    """Return whether faults, operations or expectations are about groups and coordinators."""
    faults, operations = data.get("faults", ()), data.get("operations", ())
    waits = [each.get(key, {}).get("fact") for each in faults for key in ("when", "until")]
    waits += [each.get("when", {}).get("fact") for each in operations]
    nodes = [str(each.get("node", "")) for each in (*faults, *operations)]
    return (
        any(fact in OF_COORDINATORS for fact in waits)
        or any(node.startswith("coordinator:") for node in nodes)
        or any("group" in each or each["kind"] == "rolling-deploy" for each in operations)
        or any(key in data["expect"] for key in ("must-see", "in-time", "never"))
    )


def _make_old(group: dict[str, Any], config: dict[str, Any]) -> None:
    known = group["config"]
    group["protocol"] = "zookeeper"
    group["config"] = {
        **config,
        "auto.offset.reset": "smallest"
        if known.get("auto.offset.reset") == "earliest"
        else "largest",
        "rebalance.max.retries": EVER,
        "zookeeper.connection.timeout.ms": EVER,
        "socket.timeout.ms": 5000,
    }
    if "fetch.max.wait.ms" in known:
        group["config"]["fetch.wait.max.ms"] = known["fetch.max.wait.ms"]
    if group.get("commit") == "async":
        group["commit"] = "sync"


POLICIES = ("bidirectional", "bidirectional", "upgrade")
"""Values of group.consumer.migration.policy that let a classic group become a consumer group."""


def migrations(rng: random.Random, data: dict[str, Any]) -> None:
    """Let some groups change their protocol while they run (KIP-848), where all brokers have both.

    A migration is a rolling deployment with the other protocol, and often another one back. A
    static member keeps its instance id. A member that has expressions matched for it subscribes by
    a SubscriptionPattern in the consumer protocol, and by a Pattern in the classic one, which
    refuses the other. On its way back a group has the assignors of before, as some of its members
    may not have left them: without one in common a join is refused with
    INCONSISTENT_GROUP_PROTOCOL. No group waits for its first members: meanwhile no coordinator can
    convert it.
    """
    if rng.random() >= 0.4 or not _has_consumer_protocol(data["cluster"]) or _about_groups(data):
        return
    groups = [each for each in data["workload"] if each["kind"] == "consumer-group"]
    fit = [group for group in groups if "protocol" not in group]
    if not fit:
        return
    group = rng.choice(fit)
    config = data["cluster"]["config"]
    if "group.consumer.session.timeout.ms" not in config:
        _broker_timeouts(rng, config)
    config["group.consumer.migration.policy"] = rng.choice(POLICIES)
    config["group.initial.rebalance.delay.ms"] = 0
    ways = [_to_consumer(group), _to_classic(rng, group)]
    if group["config"].get("group.protocol") == "consumer":
        ways.reverse()
    start = rng.randrange(1000, 4000)
    permit_unreleased(data, [group["group"]])
    for member in [each for each in fit if each["group"] == group["group"]]:
        both = rng.random() < 0.5
        if "subscription-pattern" in member:
            member["pattern"] = member["subscription-pattern"]
        elif "pattern" in member and both:
            member["subscription-pattern"] = member["pattern"]
    for way in ways[: rng.choice((1, 2, 2))]:
        deployment = {"kind": "rolling-deploy", "group": group["group"], **way}
        deployment |= {"at": f"{start}ms", "pause": rng.choice(("200ms", "1s"))}
        if rng.random() < 0.3:
            deployment["kill"] = True
        data.setdefault("operations", []).append(deployment)
        start += rng.randrange(2000, 5000)


def _to_consumer(group: dict[str, Any]) -> dict[str, Any]:
    removed = [name for name in _CLASSIC_SETTINGS if name in group["config"]] or _CLASSIC_SETTINGS
    return {"config": {"group.protocol": "consumer"}, "remove": list(removed)}


def _to_classic(rng: random.Random, group: dict[str, Any]) -> dict[str, Any]:
    session = rng.choice((3000, 6000, 10_000))
    drawn = rng.choice(ASSIGNORS)
    settings = {
        "group.protocol": "classic",
        "session.timeout.ms": session,
        "heartbeat.interval.ms": session // 3,
        "partition.assignment.strategy": list(
            group["config"].get("partition.assignment.strategy", drawn)
        ),
    }
    return {"config": settings, "remove": ["group.remote.assignor"]}


QUIET = 0.06
"""The share of seeds whose groups are quiet for longer than offsets.retention.minutes."""


def quiet_groups(rng: random.Random, data: dict[str, Any]) -> None:
    """Let groups have nothing to read for longer than the shortest retention of offsets, a minute.

    Meanwhile they keep their members, so nothing of theirs may expire (KIP-211). Then a member
    comes, one gets stuck, or one is away before it has committed again, and the group rebalances
    while coordinators look for expired offsets. A minute in which nothing happens costs little.
    Nemeses would fill it, and are left out.
    """
    deployed = [each.get("group") for each in data.get("operations", ())]
    groups = [
        each
        for each in data["workload"]
        if each["kind"] == "consumer-group"
        and "protocol" not in each
        and each["group"] not in deployed
    ]
    if rng.random() >= QUIET or not groups or is_about_its_faults(data):
        return
    config = data["cluster"]["config"]
    config["offsets.retention.minutes"] = 1
    config["offsets.retention.check.interval.ms"] = rng.choice((200, 1000))
    data["faults"] = [each for each in data["faults"] if each["kind"] != "nemesis"]
    for each in data["workload"]:
        if each["kind"] == "producer":
            each["stop"] = f"{rng.randrange(5000, 9000)}ms"
    last = rng.randrange(66_000, 75_000)
    data["duration"] = f"{last + 8000}ms"
    group = rng.choice(groups)
    if rng.random() < 0.5:
        group["stuck-at"], group["stuck-for"] = f"{last - 300}ms", f"{rng.choice((1, 4))}s"
    if rng.random() < 0.7:
        away = {"kind": rng.choice(("crash", "gc-pause", "isolate")), "node": "any-consumer"}
        away |= {"at": f"{last + rng.randrange(100, 2000)}ms", "for": f"{rng.choice((2, 5))}s"}
        data["faults"].append(away)
    member = {**group, "count": 1, "config": dict(group["config"]), "start": f"{last}ms"}
    for name in ("stuck-at", "stuck-for"):
        member.pop(name, None)
    member["config"].pop("group.instance.id", None)
    data["workload"].append(member)
