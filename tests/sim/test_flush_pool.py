"""Flushes of a pool of threads: how many are under way at once, and what waits behind them."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.effects import Barrier, Flush, Post, Process, Then
from tests.sim.host_probes import Bench, Probe


def started(threads: int) -> tuple[Bench, Probe]:
    """Return a bench, and the process of its host b with a pool of threads."""
    bench = Bench()
    process = bench.start("b")
    process.lane_threads = {"pool": threads}
    for path in ("f", "g"):
        process.files.append(path, 1, 1)
    return bench, process


def flush(process: Probe, what: str) -> Flush:
    """Return a flush by the pool that notes its end."""

    def handler(error: str | None, _now: int) -> None:
        process.note(what if error is None else (what, error))

    return Flush(("f",), handler, "pool")


def flushing(count: int) -> Callable[[Process, int], None]:
    """Return an action that lets the pool flush so many times."""
    return lambda process, _now: process.out.extend(
        [flush(process, f"flushed {each}") for each in range(count)]
    )


def test_a_barrier_waits_behind_no_more_flushes_of_a_pool_than_it_has_threads():
    bench, process = started(threads=2)
    bench.act("b", flushing(4))
    barrier = [Barrier(("g",)), Then(lambda _now: process.note("barrier"))]
    post = Post("fetcher", lambda _m, _now: process.out.extend(barrier), None)
    bench.act("b", lambda p, _now: p.out.append(post))
    bench.run(100_000)
    assert bench.whats("b") == ["flushed 0", "flushed 1", "barrier", "flushed 2", "flushed 3"]


def test_a_flush_that_waits_makes_durable_what_the_file_holds_at_its_turn():
    bench, process = started(threads=1)
    bench.act("b", flushing(2))
    process.files.append("f", 2, 1)
    while "flushed 1" not in bench.whats("b"):
        bench.run(1_000)
    bench.hosts["b"].power_loss()
    assert bench.hosts["b"].disk.read("f") == [1, 2]


def test_a_pool_begins_no_flush_in_a_pause_and_goes_on_after_it():
    bench, _ = started(threads=1)
    bench.act("b", flushing(3))
    bench.hosts["b"].pause(100_000)
    bench.run(200_000)
    assert bench.whats("b") == ["flushed 0", "flushed 1", "flushed 2"]
    assert bench.times("b", "flushed 1")[0] > 100_300


def test_a_process_that_died_flushes_no_more():
    bench, process = started(threads=1)
    bench.act("b", flushing(2))
    for item in range(8):
        process.files.append("f", item, 1)
    bench.hosts["b"].crash()
    bench.run(100_000)
    assert bench.whats("b") == []
    bench.hosts["b"].disk.power_loss()
    assert bench.hosts["b"].disk.count("f") < 9


def test_a_failed_flush_of_a_pool_does_not_stop_the_next_one():
    bench, _ = started(threads=1)
    bench.hosts["b"].disk.fail_flushes()
    bench.act("b", flushing(2))
    bench.run(100_000)
    error = "Input/output error"
    assert bench.whats("b") == [("flushed 0", error), ("flushed 1", error)]
