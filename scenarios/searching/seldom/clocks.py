"""Clocks of coordinators and controllers that jump, forwards and back.

Coordinators and controllers write times into their logs and compare them with their own clock: when
a transaction began and was last changed, when an offset was committed, when a producer was last
seen. After a jump, or on the next coordinator, the clock may show an earlier time than the log.
Only the host with the role is concerned, so a fault on any broker hardly ever hits it.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.clients.cast import Cast
from kafkasim.scenarios.searching.clients.moments import moment
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.05
"""The share of seeds in which this happens."""

STEPS = ("100ms", "1s", "5s", "30s", "1h")
"""From less than any timer of a scenario to more than all of them."""

MOVES = 0.5
"""The share of these in which the host goes away afterwards, so that another one takes over."""


def stepped_clocks(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let the clock of a coordinator or of the active controller jump in some seeds."""
    if rng.random() >= SHARE or is_about_its_faults(data) or has_second_process(data):
        return
    cast = Cast(rng, data, mode)
    for _ in range(rng.choice((1, 1, 2))):
        anchor = moment(rng, cast)
        node = rng.choice((cast.coordinator(), cast.coordinator(), "active-controller"))
        offset = rng.choice(("", "-", "-")) + rng.choice(STEPS)
        fault: dict[str, Any] = {"kind": "clock-step", "node": node, "offset": offset}
        fault |= anchor.at()
        if rng.random() < 0.5:
            fault["for"] = ms(cast.away())
        data["faults"].append(fault)
        if rng.random() < MOVES:
            kind = rng.choice(("crash", "stop", "isolate", "gc-pause"))
            data["faults"].append({"kind": kind, "node": node, **anchor.at(cast.near()),
                                   "for": ms(cast.away()), "guarded": True})  # fmt: skip
