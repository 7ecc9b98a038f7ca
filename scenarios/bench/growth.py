"""How boot and a simulated second grow: partitions, brokers, clients, one axis at a time.

An axis starts from a small cluster and changes one number. The exponent is the slope of a straight
line through the logarithms: 1 where the cost grows with the number, 2 where it grows with its
square, 0 where it does not grow. Fixed costs hide the growth at the lower end, so the slope of
the last step of each axis is given as well.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

from kafkasim.scenarios.bench.clock import TimedRun
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario

SETTLE_S, DURATION_S = 12, 20
"""Many new partitions keep the simulated disks busy at first: a second is measured after that."""

ENOUGH_SECONDS = 3.0
"""A size is measured again, up to three times, until this much CPU time has gone into it."""

PARTITIONS = (6, 60, 600, 2_400)
BROKERS = (3, 5, 7, 9)
CLIENTS = (2, 5, 10, 20)


@dataclass(frozen=True)
class Size:
    """One point of the measurement. ``clients`` are half producers, half consumers.

    The consumers also read ``idle`` partitions of a topic to which nobody writes.
    """

    partitions: int = 60
    brokers: int = 3
    clients: int = 2
    idle: int = 0


@dataclass(frozen=True)
class Cost:
    """What one size cost: CPU seconds of boot, CPU ms and exchanges of a simulated second."""

    boot_seconds: float
    second_ms: float
    exchanges: float


def scenario(size: Size) -> Scenario:
    """Return a cluster of a size under a load of 20 records a second from each producer."""
    producers = (size.clients + 1) // 2
    workload: list[dict[str, Any]] = [
        {
            "kind": "producer",
            "topic": "orders",
            "count": producers,
            "rate": "20/s",
            "config": {"acks": "all"},
        }
    ]
    names = ["orders", "archive"] if size.idle else ["orders"]
    if size.clients > producers:
        count = size.clients - producers
        readers = {"kind": "consumer-group", "group": "readers", "topics": names, "count": count}
        workload.append(readers)
    counts = (size.partitions, size.idle)
    topics = [
        {"name": name, "partitions": count, "replication-factor": min(3, size.brokers)}
        for name, count in zip(names, counts, strict=False)
    ]
    data = {
        "name": "growth",
        "claim": "A simulated second costs as much as what happens in it.",
        "duration": f"{DURATION_S}s",
        "cluster": {"brokers": size.brokers, "controllers": 3},
        "topics": topics,
        "workload": workload,
    }  # fmt: skip
    return parse(data, "growth")


def measure(size: Size) -> Cost:
    """Return the cost of one size, the least of up to three runs."""
    runs: list[TimedRun] = []
    while len(runs) < 3 and sum(timed.seconds for timed in runs) < ENOUGH_SECONDS:
        timed = TimedRun(scenario(size), 1, settle_us=SETTLE_S * 1_000_000)
        result = timed.execute()
        assert result.verdict == "pass", (size, result.anomalies, result.missing)
        runs.append(timed)
    return Cost(
        min(timed.boot_seconds for timed in runs),
        min(timed.ms_per_simulated_second for timed in runs),
        timed.exchanges_per_simulated_second,
    )


def exponent(sizes: Sequence[int], costs: Sequence[float]) -> float:
    """Return the slope of the straight line through the logarithms of sizes and costs."""
    xs, ys = [log(size) for size in sizes], [log(cost) for cost in costs]
    x_mean, y_mean = sum(xs) / len(xs), sum(ys) / len(ys)
    spread = sum((x - x_mean) ** 2 for x in xs)
    return sum((x - x_mean) * (y - y_mean) for x, y in zip(xs, ys, strict=True)) / spread


def table(
    partitions: Sequence[int] = PARTITIONS,
    brokers: Sequence[int] = BROKERS,
    clients: Sequence[int] = CLIENTS,
) -> Iterator[str]:
    """Yield the lines of the table: an axis after the other, with its exponents."""
    axes = {
        "partitions": [Size(partitions=number) for number in partitions],
        "brokers": [Size(brokers=number) for number in brokers],
        "clients": [Size(clients=number) for number in clients],
    }
    yield (
        f"{'axis':12}{'partitions':>10}{'brokers':>9}{'clients':>9}{'boot CPU s':>12}"
        f"{'CPU ms/sim s':>14}{'exch/sim s':>12}{'µs/exch':>9}"
    )
    for axis, sizes in axes.items():
        costs = []
        for size in sizes:
            cost = measure(size)
            costs.append(cost)
            yield (
                f"{axis:12}{size.partitions:10}{size.brokers:9}{size.clients:9}"
                f"{cost.boot_seconds:12.2f}{cost.second_ms:14.1f}{cost.exchanges:12.0f}"
                f"{cost.second_ms * 1000 / cost.exchanges:9.0f}"
            )
        yield _fitted(axis, [getattr(size, axis) for size in sizes], costs)


def _fitted(axis: str, sizes: Sequence[int], costs: Sequence[Cost]) -> str:
    boot = [cost.boot_seconds for cost in costs]
    second = [cost.second_ms for cost in costs]
    return (
        f"  exponent in {axis}: boot {exponent(sizes, boot):.2f}"
        f" (last step {exponent(sizes[-2:], boot[-2:]):.2f}),"
        f" simulated second {exponent(sizes, second):.2f}"
        f" (last step {exponent(sizes[-2:], second[-2:]):.2f})"
    )
