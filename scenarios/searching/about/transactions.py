"""Scenarios about transactions: many short ones, of impatient producers and of processors."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.about.clients import strike_clients
from kafkasim.scenarios.searching.about.world import reader, scenario, small_cluster, topic_of
from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.limits import limits
from kafkasim.scenarios.searching.draw_cluster import compaction, tables
from kafkasim.scenarios.searching.draw_transactions import add_processors
from kafkasim.scenarios.searching.draw_workload import permitted
from kafkasim.scenarios.searching.worlds.topic_settings import roll_most_batches

DURATION_MS = 20_000

VERSIONS = ("3.9", "3.9", "4.0", "4.1")
"""With 3.9 a producer keeps its epoch from one transaction to the next (transaction.version 0)."""

ROLLING = 0.2
"""The share of seeds in which most batches roll a segment, where producers' snapshots are written.
"""

PROCESSING = 0.4
"""The share of seeds in which a processor reads what is written, and writes on."""


def draw(seed: int, mode: str) -> dict[str, Any]:
    """Return the data of a scenario."""
    rng = random.Random(f"about/transactions/{seed}")
    data = scenario(f"transactions-{seed}", DURATION_MS)
    data["cluster"] = small_cluster(rng, mode, VERSIONS)
    data["topics"] = [topic_of(rng, rng.choice((1, 2, 3, 4)))]
    data["workload"] = [_writer(rng, index) for index in range(rng.choice((1, 1, 2)))]
    data["workload"].append(reader(rng))
    data["workload"][-1]["config"]["isolation.level"] = "read_committed"
    data["expect"]["permits"] = permitted(data["workload"], False)
    if rng.random() < PROCESSING:
        add_processors(rng, data)
    limits(rng, data)
    compaction(rng, data)
    tables(rng, data)
    if rng.random() < ROLLING:
        roll_most_batches(rng, data)
    cast = Cast(rng, data, mode)
    cast.groups = cast.processors  # the readers show what was committed, and are left alone
    strike_clients(cast, DURATION_MS)
    return data


def _writer(rng: random.Random, index: int) -> dict[str, Any]:
    """Draw a producer of transactions, mostly one that soon gives up a request or a batch."""
    request, linger = rng.choice((400, 1000, 3000)), rng.choice((0, 0, 5))
    config = {
        "acks": "all",
        "linger.ms": linger,
        "request.timeout.ms": request,
        "delivery.timeout.ms": request + linger + rng.choice((200, 2000, 20_000)),
        "transaction.timeout.ms": rng.choice((600, 1500, 3000, 10_000)),
        "metadata.max.age.ms": 5000,
        "max.in.flight.requests.per.connection": rng.choice((1, 5, 5)),
    }
    if rng.random() < 0.5:
        config["batch.size"] = 1  # a record a batch, so that several are in flight
    return {
        "kind": "producer",
        "transactional-id": f"writer-{index}",
        "rate": f"{rng.choice((10, 20, 40))}/s",
        "keys": rng.choice(("none", "uniform:20")),
        "transaction-records": rng.choice((1, 3, 10, 30)),
        "transaction-time": rng.choice(("100ms", "1s", "10s")),
        "abort-share": rng.choice((0, 0.1, 0.4)),
        "config": config,
    }
