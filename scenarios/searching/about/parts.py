"""The parts of Kafka that a search can be about."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.searching.about import groups, transactions
from kafkasim.scenarios.searching.choices.effects import effects
from kafkasim.scenarios.searching.draw import mode_of
from kafkasim.scenarios.searching.worlds.releases import segments_that_all_take

PARTS: dict[str, Callable[[int, str], dict[str, Any]]] = {
    "classic-groups": groups.classic,
    "consumer-groups": groups.consumer,
    "transactions": transactions.draw,
}

ONLY_KRAFT = ("consumer-groups",)
"""Parts that clusters with ZooKeeper do not have."""


def mode_about(part: str | None, seed: int) -> str:
    """Return the mode that a seed draws about a part, or about all of Kafka (None)."""
    return "kraft" if part in ONLY_KRAFT else mode_of(seed)


def draw_about(part: str, seed: int) -> dict[str, Any]:
    """Return the data of the scenario with this number about a part, one of :data:`PARTS`."""
    mode = mode_about(part, seed)
    data = PARTS[part](seed, mode)
    effects(random.Random(f"about/{part}/{seed}/effects"), data, mode)
    segments_that_all_take(data)
    return data
