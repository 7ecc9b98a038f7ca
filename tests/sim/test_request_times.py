"""The times of a request, as the host tells them when it is answered (Kafka's RequestMetrics)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.effects import Barrier, Respond
from tests.sim.host_probes import Bench, PingResponse, Probe


class Timed(Probe):
    """Notes of each answer its number and the times that it took: queue, local, remote, response
    queue and throttle time."""

    lane_threads = {}

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.times: list[tuple[int, int, int, int, int, int]] = []
        self.on_answered = self._on_answered

    def lane_of(self, message: Any, connection: int) -> str:
        return "group/0" if message.number > 100 else "requests"

    def _on_answered(self, request: Any, _: Any, ready: int, sent: int, throttle_ms: int) -> None:
        handled = request.handled_us or ready
        queue, local = request.dequeued_us - request.received_us, handled - request.dequeued_us
        times = (queue, local, ready - handled, sent - ready, throttle_ms * 1000)
        self.times.append((request.message.number, *times))


def times_of(numbers: list[int], on_request: Any = None, kind: type = Timed) -> list[Any]:
    """Send requests at once, each on a connection of its own; return their times."""
    bench = Bench(service_us=1_000)
    process = bench.start("b", on_request, kind=kind)
    assert isinstance(process, Timed)
    bench.start("a")
    for number, connection in [(number, bench.connect()) for number in numbers]:
        bench.send(connection, number)
    bench.run(50_000)
    return process.times


def test_a_request_waits_for_a_handler_and_takes_it() -> None:
    [first, second] = times_of([1, 2])
    assert first == (1, 0, 1000, 0, 0, 0)
    assert second[2:] == (1000, 0, 0, 0)
    assert 900 <= second[1] <= 1000  # it arrived a moment after the first


def test_what_is_answered_after_its_handler_is_remote() -> None:
    def later(process: Probe, item: Any, now: int) -> None:
        process.timers.arm("late", now + 7_000, "main", lambda _: process.answer(item))

    assert times_of([1], later) == [(1, 0, 1000, 7000, 0, 0)]


def test_a_flush_that_holds_the_handler_is_local() -> None:
    def durably(process: Probe, item: Any, _: int) -> None:
        process.files.append("f", 1, 1)
        process.out.append(Barrier(("f",)))
        process.answer(item)

    [(number, queue, local, *others)] = times_of([1], durably)
    assert (number, queue, others) == (1, 0, [0, 0, 0])
    assert local > 1500


def test_after_a_flush_that_held_the_handler_the_rest_is_remote() -> None:
    def durably(process: Probe, item: Any, now: int) -> None:
        process.files.append("f", 1, 1)
        process.out.append(Barrier(("f",)))
        process.timers.arm("late", now + 30_000, "main", lambda _: process.answer(item))

    [(_, queue, local, remote, *_rest)] = times_of([1], durably)
    assert queue == 0
    assert 1500 < local < 20_000
    assert local + remote == 31_000


def test_a_handler_only_hands_on_what_a_pool_serves() -> None:
    assert times_of([101]) == [(101, 0, 0, 1000, 0, 0)]


def test_the_throttle_time_is_apart() -> None:
    def throttled(process: Probe, item: Any, _: int) -> None:
        process.out.append(Respond(item.connection, item.correlation, PingResponse(1), 20))

    assert times_of([1], throttled) == [(1, 0, 1000, 0, 0, 20_000)]


def test_a_response_waits_while_its_network_thread_stalls() -> None:
    class Small(Timed):
        queued_max_requests = 1
        network_threads = 1

    parked: list[Any] = []

    def park_first(process: Probe, item: Any, _: int) -> None:
        process.answer(item) if item.message.number else parked.append(item)

    bench = Bench(service_us=1_000)
    process = bench.start("b", park_first, kind=Small)
    assert isinstance(process, Timed)
    bench.start("a")
    first, *others = [bench.connect() for _ in range(4)]
    bench.send(first, 0)
    bench.run(2_000)
    for number, connection in enumerate(others, 1):
        bench.send(connection, number)
    bench.run(500)
    bench.act("b", lambda _, __: process.answer(parked[0]))
    answered_us = bench.world.now
    bench.run(20_000)
    [served, *_] = [t for t, _, what in bench.log if what[0] == "request" and what[1]]
    [(_, queue, local, _, response_queue, _)] = [each for each in process.times if not each[0]]
    assert (queue, local) == (0, 1000)
    assert response_queue == served - answered_us  # then a handler was free, so there was room
