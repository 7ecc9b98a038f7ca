"""Operations that are rare in a cluster, each in a small share of the seeds.

Client quotas, the unregistration of a broker, an upgrade, DescribeQuorum, a search for hanging
transactions, and a second process of a broker. If the order matters (a broker may be started again
after it was unregistered), an operation waits for the fact, as an operator waits for the result of
a command.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

QUOTAS = 0.08
"""The share of seeds whose clients get quotas."""

UNREGISTERED = 0.08
"""The share of seeds in KRaft mode with a broker that is unregistered."""

UPGRADED = 0.1
"""The share of seeds that upgrade their servers, or finalize features, of those that can."""

LOOKS = 0.1
"""The share of seeds in KRaft mode in which an operator looks at the quorum."""

HANGING = 0.2
"""The share of seeds with transactions in which an operator aborts hanging ones."""

DUPLICATES = 0.05
"""The share of seeds with a second process of a broker."""

RATES = (1000, 3000, 10_000, 50_000)
"""Bytes a second. Drawn clients write and read some kilobytes a second."""

READING_RATES = (2000, 3000, 10_000, 50_000)
"""The same of a consumer: a full batch, of 16 384 bytes, fits the windows of 10 s."""

SHARED_RATES = (10_000, 50_000)
"""The same of consumers that share a quota; see :func:`client_quotas`."""

NEVER_AWAY = ("producer-", "consumer-", "processor-", "any-producer", "any-consumer")
"""Whom the faults of a seed with a second process of a broker may hit; see :func:`duplicates`."""


def client_quotas(rng: random.Random, data: dict[str, Any]) -> None:
    """Let clients get quotas that they exceed, and lose them again in half of the seeds.

    A throttled Fetch is answered without records (KafkaApis.handleFetchRequest), so one consumer
    may starve while others of its user use the quota up with answers that have none either. Such
    a quota is well above what those take. And a batch that exceeds the quota's windows is never
    given to anybody, although the rest of an answer is cut to them (KAFKA-9677).
    """
    if rng.random() >= QUOTAS or is_about_its_faults(data):
        return
    for _ in range(rng.choice((1, 1, 2))):
        entity = rng.choice((
            {"client-id": "producer-1"}, {"client-id": "consumer-1"},
            {"client-id": "<default>"}, {"user": "ANONYMOUS"}, {"user": "<default>"},
            {"user": "ANONYMOUS", "client-id": "<default>"},
        ))  # fmt: skip
        keys = rng.choice((
            ["producer_byte_rate"], ["consumer_byte_rate"],
            ["producer_byte_rate", "consumer_byte_rate"],
        ))  # fmt: skip
        at = rng.randrange(200, 4000)
        rates = {"producer_byte_rate": RATES, "consumer_byte_rate": READING_RATES}
        config = {key: rng.choice(rates[key]) for key in keys}
        if "client-id" not in entity and "consumer_byte_rate" in keys:
            config["consumer_byte_rate"] = rng.choice(SHARED_RATES)
        quota = {"kind": "alter-client-quotas", **entity}
        _operate(data, {**quota, "config": config, "at": f"{at}ms"})
        if rng.random() < 0.5:
            _operate(data, {**quota, "remove": keys, "at": f"{at + rng.randrange(500, 5000)}ms"})


def unregistered(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator unregister a broker that is down, or one that runs, and start it again.

    A broker that runs does not register again before it is restarted (BrokerLifecycleManager).
    """
    if rng.random() >= UNREGISTERED or _in_zookeeper_mode(data) or is_about_its_faults(data):
        return
    number = rng.randrange(1, data["cluster"]["brokers"] + 1)
    node = f"broker-{number}"
    at = rng.randrange(500, max(1000, _duration_ms(data) - 3000))
    told = {"fact": "BrokerRegistration", "fields": {"broker": number, "change": "unregistered"}}
    _operate(data, {"kind": "unregister-broker", "node": node, "at": f"{at}ms"})
    again = {"node": node, "when": told, "at": f"{rng.choice((10, 300, 1500))}ms"}
    if rng.random() < 0.7:
        away = {"kind": "stop", "node": node, "kill": rng.random() < 0.5}
        _operate(data, {**away, "at": f"{max(200, at - rng.choice((50, 500, 3000)))}ms"})
        _operate(data, {"kind": "start", **again})
    else:
        _operate(data, {"kind": "restart", "kill": True, "pause": "300ms", **again})


def upgrades(rng: random.Random, data: dict[str, Any]) -> None:
    """Let servers get a newer release one by one, and an operator finalize its features.

    Some get the old one back before anything of the new one is finalized. In ZooKeeper mode brokers
    of 2.8 keep their inter.broker.protocol.version.
    """
    cluster = data["cluster"]
    before = cluster.get("kafka-version", "4.0")
    if rng.random() >= UPGRADED or is_about_its_faults(data) or "nodes" in cluster:
        return
    kinds = [each["kind"] for each in data.get("operations", ())]
    if "rolling-deploy" in kinds or "features" in cluster:
        return
    roll = {"kind": "upgrade", "pause": rng.choice(("200ms", "1s")), "kill": rng.random() < 0.3}
    at = rng.randrange(200, 2500)
    if _in_zookeeper_mode(data):
        if before != "2.8-zk":
            return
        cluster["config"].setdefault("inter.broker.protocol.version", "2.6")
        _operate(data, {**roll, "kafka-version": "3.9", "at": f"{at}ms"})
        return
    newer = {"3.9": ("4.0", "4.1"), "4.0": ("4.1",)}.get(before, ())
    if newer and rng.random() < 0.7:
        _operate(data, {**roll, "kafka-version": rng.choice(newer), "at": f"{at}ms"})
        if rng.random() < 0.3:  # on some of the nodes, or on none of them, if it is early
            back = at + rng.randrange(1000, 6000)
            _operate(data, {**roll, "kafka-version": before, "at": f"{back}ms"})
            return
    elif before == "3.9" or _has_consumer_protocol(data):
        return
    else:
        cluster["features"] = {"metadata.version": rng.choice((21, 23))}  # as after an upgrade
    _finalize(rng, data)


def _finalize(rng: random.Random, data: dict[str, Any]) -> None:
    """Finalize features once or twice; the controller refuses levels that a node does not have."""
    for level in sorted(rng.sample((22, 23, 24, 25, 27), rng.choice((1, 2)))):
        features: dict[str, Any] = {"metadata.version": level}
        if level >= 23 and rng.random() < 0.3:
            features["eligible.leader.replicas.version"] = 1
        elif level >= 24 and rng.random() < 0.3:
            features["transaction.version"] = rng.choice((1, 2))
        at = rng.randrange(500, 9000)
        _operate(data, {"kind": "update-features", "features": features, "at": f"{at}ms"})


def looks_at_the_quorum(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator describe the quorum a few times, also while it has no leader."""
    if rng.random() >= LOOKS or _in_zookeeper_mode(data):
        return
    for _ in range(rng.choice((1, 2, 4))):
        _operate(data, {"kind": "describe-quorum", "at": ["100ms", "9s"]})


def hanging_aborted(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator look for hanging transactions, and abort what is found (KIP-664).

    The tool takes a transaction for hanging that is open for longer than the brokers'
    transaction.max.timeout.ms permits, 15 minutes by default. It is lowered here to what the
    writers ask for. 2.8 has no requests for that.
    """
    writers = [
        {**each.get("producer-config", {}), **each["config"]}
        for each in data["workload"]
        if each["kind"] == "processor" or "transactional-id" in each
    ]
    if rng.random() >= HANGING or not writers or data["cluster"].get("kafka-version") == "2.8-zk":
        return
    config = data["cluster"]["config"]
    longest = max([int(each.get("transaction.timeout.ms", 60_000)) for each in writers])
    period = int(config.get("transaction.abort.timed.out.transaction.cleanup.interval.ms", 10_000))
    config["transaction.max.timeout.ms"] = longest
    for _ in range(rng.choice((1, 2))):
        _operate(data, {
            "kind": "abort-hanging", "topic": data["topics"][0]["name"],
            "open-for": f"{longest + period + 500}ms", "at": ["2s", "10s"],
        })  # fmt: skip


def duplicates(rng: random.Random, data: dict[str, Any]) -> None:
    """Let an operator start a second process of a broker, which is refused for ever.

    It is refused while the session of the first one is valid. Two disks under one id are outside of
    what Kafka survives, so nothing takes the first one's session away: only clients have faults,
    and no operation stops a server.
    """
    if rng.random() >= DUPLICATES or data["cluster"].get("combined") or is_about_its_faults(data):
        return
    data["faults"] = [each for each in data["faults"] if _of_clients(each)]
    kept = [each for each in data.get("operations", ()) if _leaves_servers(each)]
    number = rng.randrange(1, data["cluster"]["brokers"] + 1)
    second = {"kind": "duplicate-broker", "node": f"broker-{number}"}
    data["operations"] = [*kept, {**second, "at": f"{rng.randrange(200, 5000)}ms"}]


def _of_clients(fault: dict[str, Any]) -> bool:
    hit = [*([fault["node"]] if "node" in fault else ()), *fault.get("nodes", ())]
    return bool(hit) and all(name.startswith(NEVER_AWAY) for name in hit)


def _leaves_servers(operation: dict[str, Any]) -> bool:
    kind, node = operation["kind"], operation.get("node", "")
    stopping = kind in ("stop", "start", "restart", "replace-disk")
    return kind not in ("rolling-restart", "upgrade", "unregister-broker") and not (
        stopping and not node.startswith(NEVER_AWAY)
    )


def _duration_ms(data: dict[str, Any]) -> int:
    text = str(data["duration"])
    return int(text[:-2]) if text.endswith("ms") else 1000 * int(text[:-1])


def _in_zookeeper_mode(data: dict[str, Any]) -> bool:
    return bool(data["cluster"].get("mode") == "zookeeper")


def _has_consumer_protocol(data: dict[str, Any]) -> bool:
    """Return whether a group needs group.version 1, which came with metadata.version 22."""
    return any(each["config"].get("group.protocol") == "consumer" for each in data["workload"])


def _operate(data: dict[str, Any], operation: dict[str, Any]) -> None:
    data.setdefault("operations", []).append(operation)
