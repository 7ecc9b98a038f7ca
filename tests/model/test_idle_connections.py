"""Idle connections are closed (connections.max.idle.ms)."""

from __future__ import annotations

import random

from kafkasim.model.broker.common.idle_connections import IdleConnections
from kafkasim.model.effects import Close, Process
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import ScenarioRun

SECOND = 1_000_000


def closed(max_idle_ms: int, last: dict[int, int], until_s: int) -> list[tuple[int, int]]:
    """Return which connections are closed, and when; ``last``: when each was active, in s."""
    process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
    process.last_active = lambda: [(each, at * SECOND) for each, at in last.items()]
    IdleConnections(process, max_idle_ms).start(0)
    found = []
    for second in range(until_s + 1):
        while (due := process.timers.pop_due(second * SECOND)) is not None:
            process.timers.fire(due[0], due[1], second * SECOND)
        for effect in process.out:
            assert isinstance(effect, Close), effect
            found.append((effect.connection, second))
            del last[effect.connection]
        process.out.clear()
    return found


def test_each_connection_is_closed_when_it_was_idle_for_too_long() -> None:
    assert closed(10_000, {1: 0, 2: 7, 3: 30}, 35) == [(1, 11), (2, 18)]


def test_a_negative_time_closes_none() -> None:
    assert closed(-1, {1: 0}, 100) == []


def test_a_broker_closes_what_its_clients_do_not_use() -> None:
    scenario = {
        "name": "idle", "claim": "A bootstrap connection is used once.", "duration": "8s",
        "cluster": {"brokers": 1, "controllers": 1,
                    "config": {"connections.max.idle.ms": 3000}},
        "topics": [{"name": "orders"}],
        "workload": [{"kind": "producer", "rate": "10/s"}],
    }  # fmt: skip
    run = ScenarioRun(parse(scenario, "idle"), 1, None, [])
    assert run.execute().verdict == "pass"
    sockets = run.world.hosts["broker-1"].card.sockets.values()
    clients = [each.peer.card.name for each in sockets if each.inbound and each.peer is not None]
    assert clients.count("producer-1") == 1  # the one to the node, not that of the bootstrap
