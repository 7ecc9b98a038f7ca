"""Measure the bare core: request/response exchanges a second between echo processes.

Run ``python -m kafkasim.sim.bench_core [seconds of simulated time] [--profile]``. Every client
keeps one request in flight; the server answers at the end of its service time. There are no
applications, no storage and no facts, so this measures the kernel, the hosts and the network.
"""

from __future__ import annotations

import cProfile
import gc
import pstats
import sys
import time
from typing import Any

from kafkasim.model.effects import Open, Process, Request, Respond, Send
from kafkasim.model.errors import Errors
from kafkasim.model.messages import HeartbeatRequest, HeartbeatResponse
from kafkasim.sim.world import World


class Server(Process):
    """Answers every request as soon as its handler runs."""

    lane_threads = {"requests": 8}

    def on_request(self, item: Request, now: int) -> None:
        self.out.append(Respond(item.connection, item.correlation, HeartbeatResponse(Errors.NONE)))


class Client(Process):
    """Sends the next request when the last one is answered. It is its own channel."""

    answered = 0

    def start(self, now: int) -> None:
        connection = self.new_connection(self)
        self.out.append(Open(connection, "server", "bench", "main"))

    def on_opened(self, now: int) -> None:
        """Send the first request."""
        self.out.append(Send(1, 1, HeartbeatRequest("g", 1, "m", None)))

    def on_response(self, correlation: int, message: Any, now: int) -> None:
        """Send the next request."""
        self.answered += 1
        self.out.append(Send(1, correlation + 1, HeartbeatRequest("g", 1, "m", None)))

    def on_open_failed(self, reason: str, now: int) -> None:
        """Fail: no connection of this benchmark ends."""
        raise AssertionError(reason)

    def on_closed(self, reason: str, now: int) -> None:
        """Fail: no connection of this benchmark ends."""
        raise AssertionError(reason)


class NoTrace:
    """A trace that keeps nothing."""

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Drop the fact."""


def run(simulated_us: int, clients: int = 20) -> tuple[int, float]:
    """Return the exchanges made and the CPU seconds they took."""
    world = World(1, NoTrace())
    world.add_host("server").start(lambda files, rng, now: Server("server", files, rng, now))
    processes = []
    for index in range(clients):
        name = f"client-{index}"
        host = world.add_host(name)
        processes.append(
            host.start(lambda files, rng, now, name=name: Client(name, files, rng, now))  # type: ignore[misc]
        )
    gc.collect()
    gc.freeze()
    gc.disable()
    began = time.process_time()
    world.run(simulated_us)
    took = time.process_time() - began
    gc.enable()
    return sum([process.answered for process in processes]), took  # type: ignore[union-attr]


def main() -> None:
    """Print the rate, or a profile."""
    numbers = [word for word in sys.argv[1:] if word.isdigit()]
    simulated_us = int(numbers[0] if numbers else 5) * 1_000_000
    if "--profile" in sys.argv:
        with cProfile.Profile() as profile:
            run(simulated_us)
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)
        return
    exchanges, took = run(simulated_us)
    print(f"{exchanges} exchanges in {took:.2f} s: {exchanges / took:,.0f} a second")


if __name__ == "__main__":
    main()
