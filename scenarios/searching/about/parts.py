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
    "groups": groups.draw,
    "transactions": transactions.draw,
}


def draw_about(part: str, seed: int) -> dict[str, Any]:
    """Return the data of the scenario with this number about a part, one of :data:`PARTS`."""
    mode = mode_of(seed)
    data = PARTS[part](seed, mode)
    effects(random.Random(f"about/{part}/{seed}/effects"), data, mode)
    segments_that_all_take(data)
    return data
