"""A budget of exchanges that a drawn scenario respects, so that no seed costs as much as ten.

A request and its response are an *exchange*. What a run costs is known before it runs: each client
and each replica asks others at a rate that its settings give, for as long as the run lasts. So
:func:`estimate` is a sum over clients and replicas of rate × time × cost, and :func:`within_budget`
changes rates and waits until that sum is within a budget that the seed draws. It shortens idle time
first: fetches that return nothing, records without content in the metadata log. Then it lowers the
rates of producers. Brokers, partitions, clients, faults, features and timeouts stay as drawn.

The costs in :data:`COST` are a regression: 260 drawn scenarios (seeds 1000 to 1259, before there
was a budget) ran until their faults were healed; non-negative least squares fitted the CPU time
of each, weighted by its inverse, to the counts of :func:`happenings`. One unit is the CPU time of
a usual exchange (200 µs then). The logarithm of the estimate correlates with that of the CPU time
(0.83). The rest is what faults do: clients that retry without a pause, logs that are copied anew.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

from kafkasim.scenarios.language.units import duration_us

Data = dict[str, Any]

BUDGETS = (600, 900, 1300, 2500)
"""Budgets in exchanges; each seed draws one. The last leaves most scenarios as they were drawn."""

HEALED_S = 4.0
"""How long a run usually goes on after its faults are healed, in seconds."""

COST = {
    "servers": 88.0,
    "quorum": 0.92,
    "zookeeper": 1.14,
    "idle fetches of replicas": 0.12,
    "idle fetches of consumers": 0.15,
    "replicated batches": 0.37,
    "heartbeats of members": 3.65,
    "commits": 0.45,
    "members of share groups": 4.6,
}
"""What each happening costs, in usual exchanges, with all that follows from it."""


def estimate(data: Data) -> float:
    """Return how many exchanges of the usual cost a run of the scenario makes."""
    return sum([COST[name] * count for name, count in happenings(data)])


def within_budget(rng: random.Random, data: Data) -> None:
    """Draw a budget; shorten idle time, lower rates, end the run sooner until it is kept."""
    budget = rng.choice(BUDGETS)
    for lower in (*IDLE, *[_lower_rates] * 6, _end_sooner):
        if estimate(data) <= budget:
            return
        lower(data)


# ------------------------------------------------------------------------------------ the estimate


def happenings(data: Data) -> Iterator[tuple[str, float]]:
    """Yield the kinds of :data:`COST`, each with how often it happens; some come twice."""
    seconds = duration_us(data["duration"]) / 1e6 + HEALED_S
    yield from _of_servers(data["cluster"], seconds)
    yield from _of_producers(data, seconds)
    batches = sum([_batches(data, each, seconds) for each in _of_kind(data, "producer")])
    leaders = min(data["cluster"]["brokers"], sum([each["partitions"] for each in data["topics"]]))
    for each in data["workload"]:
        if each["kind"] != "producer":
            yield from _of_members(each, seconds - _seconds(each, "start", 0.0), batches, leaders)


def _of_servers(cluster: Data, seconds: float) -> Iterator[tuple[str, float]]:
    config, brokers = cluster["config"], cluster["brokers"]
    wait_ms = config.get("replica.fetch.wait.max.ms", 500)
    yield "idle fetches of replicas", brokers * (brokers - 1) * seconds * 1000 / wait_ms
    if cluster.get("mode") == "zookeeper":
        ensemble = cluster.get("zookeepers", 1)
        tick_ms = cluster.get("zookeeper-config", {}).get("tickTime", 2000)
        session_ms = config.get("zookeeper.session.timeout.ms", 18_000)
        pings = ensemble * 1000 / tick_ms + brokers * 3000 / session_ms
        yield "zookeeper", pings * seconds
        yield "servers", brokers + ensemble
        return
    nodes = brokers + cluster.get("controllers", 1) - cluster.get("combined", 0)
    noop_ms = config.get("metadata.max.idle.interval.ms", 500)
    yield "quorum", nodes * (2 + 1000 / noop_ms) * seconds
    yield "servers", nodes


def _of_producers(data: Data, seconds: float) -> Iterator[tuple[str, float]]:
    topic = data["topics"][0]
    replicas = topic.get("replication-factor") or len(topic["assignment"][0])
    for each in _of_kind(data, "producer"):
        yield "replicated batches", replicas * _batches(data, each, seconds)


def _of_members(
    workload: Data, seconds: float, batches: float, leaders: int
) -> Iterator[tuple[str, float]]:
    """Yield what the members of a group do in so many ``seconds``, with ``batches`` to read."""
    count, config = workload.get("count", 1), workload.get("config", {})
    if workload["kind"] == "share-group":
        yield "members of share groups", count * seconds
        return
    wait_ms = config.get("fetch.max.wait.ms", config.get("fetch.wait.max.ms", 500))
    yield "idle fetches of consumers", count * leaders * seconds * 1000 / max(wait_ms, 1)
    beat_ms = config.get("heartbeat.interval.ms", 1000)
    yield "heartbeats of members", count * seconds * 1000 / beat_ms
    how = workload.get("commit", "auto")
    if workload["kind"] == "consumer-group" and how != "none":
        interval_ms = config.get("auto.commit.interval.ms", 5000)
        yield "commits", count * seconds * 1000 / interval_ms if how == "auto" else batches


def _batches(data: Data, producer: Data, seconds: float) -> float:
    """Return how many batches the producers of a workload send: one for each record, or fewer if
    they linger for more."""
    lasts = min(seconds, _seconds(producer, "stop", seconds)) - _seconds(producer, "start", 0.0)
    config = producer["config"]
    count: int = producer.get("count", 1)
    rate = _per_second(producer)
    if config.get("batch.size", 16_384) >= 1000:
        partitions = data["topics"][0]["partitions"]
        rate = min(rate, partitions * 1000 / max(config.get("linger.ms", 5), 1))
    return max(0.0, rate * count * lasts)


def _of_kind(data: Data, kind: str) -> list[Data]:
    return [each for each in data["workload"] if each["kind"] == kind]


def _seconds(table: Data, key: str, without: float) -> float:
    return duration_us(table[key]) / 1e6 if key in table else without


def _per_second(producer: Data) -> float:
    """Return how many records one producer of a workload sends in a second."""
    number, _, unit = str(producer["rate"]).partition("/")
    return float(number) / (60 if unit == "m" else 1)


# -------------------------------------------------------------------------------- what is lowered

LONGEST_WAIT_MS = 500
"""How long an idle fetch waits by default, at a broker as in a quorum."""

CONSUMERS_WAIT_MS = 150
"""A consumer that waits less does so on purpose, and waits for no longer than this."""

LEAST_RATE = 3
"""Records a second that every producer sends at least."""

SHORTEST_MS = 4000
REST_MS = 1000
"""How long a run lasts at least, and how long after the last time that its plan names."""


def _replicas_wait(data: Data) -> None:
    """A follower's fetch waits as long as by default, which is no longer than a lag."""
    config = data["cluster"]["config"]
    lag_ms = config.get("replica.lag.time.max.ms", LONGEST_WAIT_MS)
    config["replica.fetch.wait.max.ms"] = min(LONGEST_WAIT_MS, lag_ms)


def _quorum_rests(data: Data) -> None:
    """The active controller writes a NoOpRecord as seldom as by default."""
    config = data["cluster"]["config"]
    if "metadata.max.idle.interval.ms" in config:
        config["metadata.max.idle.interval.ms"] = LONGEST_WAIT_MS


def _consumers_wait(data: Data) -> None:
    for each in data["workload"]:
        if each["kind"] != "producer" and "fetch.max.wait.ms" in each["config"]:
            least = max(CONSUMERS_WAIT_MS, each["config"]["fetch.max.wait.ms"])
            each["config"]["fetch.max.wait.ms"] = least


def _members_rest(data: Data) -> None:
    """A classic member sends three heartbeats in a session, as by default."""
    for each in data["workload"]:
        config = each["config"]
        if {"heartbeat.interval.ms", "session.timeout.ms"} <= config.keys():
            config["heartbeat.interval.ms"] = config["session.timeout.ms"] // 3


IDLE: tuple[Callable[[Data], None], ...] = (
    _quorum_rests,
    _replicas_wait,
    _consumers_wait,
    _members_rest,
)
"""What shortens idle time."""


def _lower_rates(data: Data) -> None:
    """Halve the rates of producers."""
    for each in _of_kind(data, "producer"):
        rate = _per_second(each)
        if rate > LEAST_RATE:
            each["rate"] = f"{max(LEAST_RATE, int(rate / 2))}/s"


def _end_sooner(data: Data) -> None:
    """End the run soon after the last time that the plan or a workload names."""
    tables = [*data["faults"], *data.get("operations", ()), *data["workload"]]
    last_us = max([_latest_us(each) for each in tables], default=0)
    least_us = max(SHORTEST_MS * 1000, last_us + REST_MS * 1000)
    if least_us < duration_us(data["duration"]):
        data["duration"] = f"{least_us // 1000}ms"


def _latest_us(table: Data) -> int:
    """Return the latest time of a table, in µs, with how long what begins there may last."""
    lasts = max([_longest_us(table, key) for key in ("for", "stuck-for", "pause")])
    begins = max([_longest_us(table, key) for key in ("at", "start", "stop", "stuck-at")])
    again = _longest_us(table, "every") * (table.get("count", 1) - 1) if "every" in table else 0
    return begins + lasts + again


def _longest_us(table: Data, key: str) -> int:
    value = table.get(key, "0ms")
    return max([duration_us(each) for each in (value if isinstance(value, list) else [value])])
