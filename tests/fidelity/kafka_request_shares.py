"""How the times of requests divide on a broker that flushes every record (RequestMetrics).

Eight producers with acks=1 send one request after the other, and a consumer waits for records that
do not come. ``log.flush.interval.messages`` is 1, so an append holds its request handler for an
fsync, whatever the disk takes for that: with one handler seven of eight requests wait in the queue,
with eight handlers none does. The real broker is slowed by requests with sixteen partitions each.

Times are compared as shares of the whole, in per cent. How long a fetch waits for records does not
depend on the disk, so with one handler only the time that it waits in the queue is compared with
Produce's. Those of Kafka are measured: they count as equal if they are within ``TOLERANCE`` of the
committed ones.
"""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from tests.fidelity.one_broker import OneBroker
from tests.fidelity.real_kafka import NoKafka, RealCluster, run_java, running
from tests.fidelity.sides import RealSide

HERE = Path(__file__).parent
VERSIONS = ("4.1.0",)

HANDLERS = (1, 8)
PRODUCERS, PARTITIONS, SECONDS = 8, 16, 20
TOLERANCE = 15
"""In per cent of the whole, on each side."""

TIMES = ("queue", "local", "remote", "response queue", "send")
"""What a request spends its time with; the model has no time in the send buffer of a socket."""

Shares = dict[str, dict[str, int]]
"""API and number of handlers -> time -> its share in per cent."""

Times = Mapping[str, tuple[float, Mapping[str, float]]]
"""API -> how many requests there were, and the sum of each of their times."""


def settings(handlers: int) -> dict[str, str]:
    """Return a broker's settings."""
    return {"num.io.threads": str(handlers), "log.flush.interval.messages": "1"}


def ask(version: str) -> list[str]:
    """Return a line for each API and number of handlers, the committed one if it is near."""
    measured: Shares = {}
    for handlers in HANDLERS:
        with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
            cluster = OneBroker(version, Path(scratch), settings(handlers))
            with running(cluster):
                measured |= _measured(cluster, handlers)
    file = HERE / "request_shares" / f"{version}.txt"
    known = parsed(file.read_text().splitlines()) if file.exists() else {}
    return [
        line(what, known[what] if near(known.get(what), shares) else shares)
        for what, shares in measured.items()
    ]


def near(some: Mapping[str, int] | None, others: Mapping[str, int]) -> bool:
    """Return whether shares are equal within the tolerance."""
    return some is not None and all(
        abs(share - others[what]) <= TOLERANCE for what, share in some.items()
    )


def line(what: str, shares: Mapping[str, int]) -> str:
    """Return shares as text."""
    return f"{what}: {', '.join(f'{name} {share} %' for name, share in shares.items())}"


def parsed(lines: list[str]) -> Shares:
    """Return shares from text."""
    found: Shares = {}
    for each in lines:
        what, shares = each.split(": ")
        rows = [share.rsplit(" ", 2) for share in shares.split(", ")]
        found[what] = {name: int(number) for name, number, _ in rows}
    return found


def committed(version: str) -> Shares:
    """Return the shares that a version's broker had."""
    return parsed((HERE / "request_shares" / f"{version}.txt").read_text().splitlines())


def shares_of(handlers: int, times: Times) -> Shares:
    """Return what is compared of the times of Produce and FetchConsumer."""
    (sent, produce), (fetched, fetch) = times["Produce"], times["FetchConsumer"]
    if handlers == 1:
        ratio = (fetch["queue"] / fetched) / (produce["queue"] / sent)
        of_fetch = {"FetchConsumer, 1 handler": {"queue of Produce's": round(100 * ratio)}}
    else:
        of_fetch = {f"FetchConsumer, {handlers} handlers": _divided(fetch)}
    return {f"Produce, {handlers} handler{'s' * (handlers > 1)}": _divided(produce), **of_fetch}


def _divided(sums: Mapping[str, float]) -> dict[str, int]:
    whole = sum(sums.values())
    return {what: round(100 * each / whole) for what, each in sums.items()}


def _measured(cluster: RealCluster, handlers: int) -> Shares:
    side = RealSide(cluster)
    for topic, partitions in (("busy", PRODUCERS * PARTITIONS), ("idle", 1)):
        wanted = m.CreatableTopic(topic, partitions, 1, (), ())
        answer = side.ask(1, m.CreateTopicsRequest((wanted,), 20_000))
        assert answer.results[0][1] is Errors.NONE, answer
    side.settle(5)
    bootstrap, pid = f"127.0.0.1:{cluster.ports[1]}", cluster.processes[1].pid
    arguments = (bootstrap, pid, "busy", "idle", PRODUCERS, PARTITIONS, SECONDS)
    source = HERE / "java" / "RequestTimes.java"
    rows = [row.split(" | ") for row in run_java(cluster.libs, source, *map(str, arguments))]
    if len(rows) != 2:
        raise NoKafka(f"{source.name} printed {rows}")
    times = {api: (float(count), dict(zip(TIMES, map(float, sums)))) for api, count, *sums in rows}
    return shares_of(handlers, times)
