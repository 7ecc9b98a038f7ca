"""How long things take: lag and session times, and how much is sent in a long run.

Whether a replica leaves the ISR because it lags, or because its broker is fenced, depends on which
of the two times is shorter. In most seeds both are short, so that they end within a run of seconds.
In some seeds they are drawn from a tenth of Kafka's defaults to ten times the defaults, and either
may be the longer one.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.chains.pace import HEARTBEAT_PARTS
from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults

SHARE = 0.1
"""The share of seeds with any lag and session time."""

LAG_MS = 30_000
"""replica.lag.time.max.ms, as Kafka has it."""

SESSION_MS = {"kraft": 9000, "zookeeper": 18_000}
"""A broker's session timeout, as Kafka has it."""


def any_timers(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Draw the lag and the session time of some seeds: each order of magnitude is as likely.

    Fetches then wait for half a second, and an idle controller writes as often: a cluster that
    waits for the end of a session costs little. A broker that crashes comes back when its session
    is over, and an application may be away meanwhile: offsets are retained for longer than that.
    """
    if rng.random() >= SHARE or is_about_its_faults(data):
        return
    cluster, config = data["cluster"], data["cluster"]["config"]
    session = int(SESSION_MS[mode] * 10 ** rng.uniform(-1, 1))
    config["replica.lag.time.max.ms"] = int(LAG_MS * 10 ** rng.uniform(-1, 1))
    config["replica.fetch.wait.max.ms"] = 500
    config["broker.session.timeout.ms"] = session
    config["broker.heartbeat.interval.ms"] = int(session / rng.choice(HEARTBEAT_PARTS))
    # A new incarnation must outwait the session of the one before, or the broker halts.
    config["initial.broker.registration.timeout.ms"] = max(60_000, 2 * session)
    if "offsets.retention.minutes" in config:
        config["offsets.retention.minutes"] = 1 + 2 * session // 60_000
    if mode == "zookeeper":
        config["zookeeper.session.timeout.ms"] = session
        cluster["zookeeper-config"] = {"tickTime": max(50, session // 10)}
        for node in cluster.get("nodes", {}).values():
            node.get("config", {}).pop("zookeeper.session.timeout.ms", None)
    else:
        config["metadata.max.idle.interval.ms"] = 500


LONG_US = 30_000_000
"""Runs that last longer have few records."""


def few_records(rng: random.Random, data: dict[str, Any]) -> None:
    """Let the producers of a long run send little, up to ten records a second each.

    A processor of small transactions handles some thirty records a second: after a minute of more
    it would have too much left to handle.
    """
    if duration_us(data["duration"]) < LONG_US:
        return
    for each in data["workload"]:
        if each["kind"] == "producer" and "stop" not in each:
            each["rate"] = f"{rng.choice((2, 5, 10))}/s"
