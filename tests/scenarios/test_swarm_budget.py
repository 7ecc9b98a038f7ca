"""Drawn scenarios respect a budget of exchanges, and lose nothing but idle time and rates."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching import draw as drawing
from kafkasim.scenarios.searching.budget import BUDGETS, estimate

MAY_CHANGE = (
    "replica.fetch.wait.max.ms", "metadata.max.idle.interval.ms", "fetch.max.wait.ms",
    "heartbeat.interval.ms",
)  # fmt: skip


def _kept(data: dict[str, Any]) -> dict[str, Any]:
    """Return what a budget leaves of a scenario as it was drawn."""
    config = {k: v for k, v in data["cluster"]["config"].items() if k not in MAY_CHANGE}
    clients = [
        {k: v for k, v in each["config"].items() if k not in MAY_CHANGE}
        | {k: v for k, v in each.items() if k not in ("config", "rate")}
        for each in data["workload"]
    ]
    rest = {k: v for k, v in data.items() if k not in ("cluster", "workload", "duration")}
    return {**rest, "cluster": {**data["cluster"], "config": config}, "workload": clients}


def test_a_budget_changes_waits_rates_and_the_end_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    for step in ("share_groups", "share_meetings", "overtaken", "triggers", "seldom", "effects",
                 "changes_in_elections", "upgrades", "client_quotas", "duplicates"):  # fmt: skip
        monkeypatch.setattr(drawing, step, lambda *_: None)  # they read what a budget changes
    within = [drawing.draw(seed) for seed in range(120)]
    monkeypatch.setattr(drawing, "within_budget", lambda *_: None)
    without = [drawing.draw(seed) for seed in range(120)]
    assert list(map(_kept, within)) == list(map(_kept, without))
    costs = [(estimate(one), estimate(other)) for one, other in zip(within, without, strict=True)]
    assert all(one <= other for one, other in costs)
    assert all(
        duration_us(one["duration"]) <= duration_us(other["duration"])
        for one, other in zip(within, without, strict=True)
    )


def test_most_scenarios_are_within_the_largest_budget() -> None:
    costs = sorted([estimate(drawing.draw(seed)) for seed in range(200)])
    assert costs[100] < BUDGETS[2]
    assert costs[180] < BUDGETS[3]
