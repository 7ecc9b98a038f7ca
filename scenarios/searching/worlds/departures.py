"""Brokers that leave for good: the others must go on without them until the run ends."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.scenarios.searching.shapes.apart import is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import ms

SHARE = 0.08
"""The share of seeds that one or two brokers leave."""

WAYS = ("crash", "crash", "stop", "power-loss", "isolate")


def leave_for_good(rng: random.Random, data: dict[str, Any]) -> None:
    """Let a broker leave some seeds, or the leader of a partition; sometimes another follows.

    They come back when all faults are healed. Within the no-loss budget: a power loss does not
    strike if others have lost what they had not flushed.
    """
    if rng.random() >= SHARE or is_about_its_faults(data):
        return
    brokers = range(1, data["cluster"]["brokers"] + 1)
    at = rng.randrange(500, 5000)
    for broker in rng.sample(brokers, rng.choice((1, 1, 1, 2))):
        role = f"leader:{data['topics'][0]['name']}-0"
        node = rng.choice((f"broker-{broker}", f"broker-{broker}", role))
        gone = {"kind": rng.choice(WAYS), "node": node, "at": ms(at), "guarded": True}
        data["faults"].append(gone)
        at += rng.randrange(100, 3000)
