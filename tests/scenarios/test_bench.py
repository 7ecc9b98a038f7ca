"""``make bench`` at sizes that take a moment: its tables, and what it concludes from them."""

from __future__ import annotations

import re
import sys
from types import FrameType
from typing import Any

import pytest

from kafkasim.scenarios.bench import growth
from kafkasim.scenarios.bench.budgets import (
    BUDGETS,
    CLIENTS,
    CORE,
    MODEL,
    REST,
    ROOT,
    TRACE,
    budget,
)
from kafkasim.scenarios.bench.clock import TimedRun


def test_the_exponent_is_the_slope_of_the_logarithms() -> None:
    sizes = [6, 60, 600, 2_400]
    for slope in (0.0, 1.0, 2.0):
        costs = [3.5 * size**slope for size in sizes]
        assert growth.exponent(sizes, costs) == pytest.approx(slope)


@pytest.mark.slow
def test_the_growth_table_has_a_row_a_size_and_an_exponent_an_axis(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "ENOUGH_SECONDS", 1e-9)
    monkeypatch.setattr(growth, "SETTLE_S", 1)
    monkeypatch.setattr(growth, "DURATION_S", 3)
    lines = list(growth.table(partitions=(2, 4), brokers=(3, 4), clients=(1, 2)))
    assert len(lines) == 1 + 3 * (2 + 1)
    assert max(map(len, lines)) <= 98  # two columns of indentation are added
    found = [line for line in lines if "exponent" in line]
    assert [re.findall(r"in (\w+):", line) for line in found] == [
        ["partitions"], ["brokers"], ["clients"],
    ]  # fmt: skip
    assert all(len(re.findall(r"-?\d+\.\d\d", line)) == 4 for line in found)


@pytest.mark.parametrize(
    ("path", "paid"),
    [
        ("sim/kernel.py", CORE),
        ("model/timers.py", CORE),
        ("model/raft/client.py", MODEL),
        ("model/client/producer/sender.py", CLIENTS),
        ("sim/apps/loop.py", CLIENTS),
        ("model/facts/__init__.py", TRACE),
        ("sim/trace/store.py", TRACE),
        ("analysis/judging/delivery.py", TRACE),
        ("scenarios/running/runner.py", REST),
    ],
)
def test_each_file_is_paid_from_one_budget(path: str, paid: str) -> None:
    assert paid in BUDGETS
    assert budget(str(ROOT / path)) == paid


def test_a_library_is_paid_by_its_caller_unless_it_is_one_partys_own() -> None:
    assert budget("/usr/lib/python3.11/heapq.py") is None
    assert budget("/venv/site-packages/simpy/core.py") == CORE
    assert budget("/usr/lib/python3.11/asyncio/events.py") == CLIENTS


class LineCounter:
    """Counts the lines of Python that a run executes in an exchange of its workload.

    A loop over partitions counts as often as it turns.
    """

    def __init__(self, size: growth.Size) -> None:
        self.lines = 0
        self._timed = TimedRun(growth.scenario(size), 1, settle_us=growth.SETTLE_S * 1_000_000)
        self._mark = self._timed._mark
        self._timed._mark = self._on_mark  # type: ignore[method-assign]

    def per_exchange(self) -> float:
        result = self._timed.execute()
        assert result.verdict == "pass"
        return self.lines / self._timed.exchanges

    def _on_mark(self, moment: str) -> None:
        self._mark(moment)
        if moment in ("load", "liveness"):
            sys.settrace(self._trace if moment == "load" else None)

    def _trace(self, frame: FrameType, event: str, _: Any) -> Any:
        if event == "line":
            self.lines += 1
        return self._trace


@pytest.mark.slow
def test_an_exchange_costs_the_same_among_many_idle_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(growth, "DURATION_S", 18)  # 6 s of them are counted
    few, many = [
        LineCounter(growth.Size(6, clients=6, idle=idle)).per_exchange() for idle in (0, 594)
    ]
    assert many < 1.2 * few, (many, few)


@pytest.mark.slow
def test_what_runs_between_two_slices_is_not_counted() -> None:
    calls: list[None] = []
    timed = TimedRun(growth.scenario(growth.Size(2, 1, 1)), 1, between=lambda: calls.append(None))
    result = timed.execute()
    assert len(calls) == int(result.sim_seconds)
    assert 0 < timed.boot_seconds < timed.boot_seconds + timed.load_seconds < timed.seconds
