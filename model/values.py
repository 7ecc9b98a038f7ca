"""Values: the decorator of what crosses a boundary (messages, effects, facts), and random ids.

A value is a ``slots`` dataclass that nobody changes once it has been handed over. Freezing it costs
five times the construction (a FetchRequest with two partitions: 1721 ns frozen, 343 ns not), so it
is frozen where that rule is checked, under the test suite and for mypy, and plain elsewhere.
"""

import base64
import random
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

T = TypeVar("T")

FROZEN = "pytest" in sys.modules


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make ``cls`` a value: a slots dataclass, frozen under the test suite."""
    if TYPE_CHECKING:
        return cls
    return dataclass(cls, slots=True, frozen=FROZEN, eq=True)


def random_uuid(rng: random.Random) -> str:
    """Return 128 bits in URL-safe base 64, never starting with a dash (Kafka's Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode()
        if not text.startswith("-"):
            return text.rstrip("=")
