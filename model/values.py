"""The decorator of everything that crosses a boundary (messages, effects, facts); random ids.

A value is a dataclass with slots that nobody changes after handing it over. To freeze a dataclass
makes its construction five times as slow (a FetchRequest with two partitions: 1721 ns against 343).
So values are frozen for mypy and where unit tests run, which check the rule, and plain in a run.
"""

import base64
import random
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, dataclass_transform

T = TypeVar("T")

FROZEN = False
"""Whether values are frozen, also at run time: tests/conftest.py says so before any is defined."""


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class a value: a dataclass with slots, frozen where unit tests run."""
    if TYPE_CHECKING:
        return cls
    return dataclass(cls, slots=True, frozen=FROZEN, eq=True)


def is_uuid(text: str) -> bool:
    """Return whether a text is 128 bits in URL-safe base 64 (Uuid.fromString)."""
    try:
        return len(text) <= 24 and len(base64.urlsafe_b64decode(text.rstrip("=") + "==")) == 16
    except ValueError:
        return False


def random_uuid(rng: random.Random) -> str:
    """Return 128 random bits in URL-safe base 64, 22 characters, no dash first (Uuid)."""
    while True:
        text = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode()
        if not text.startswith("-"):
            return text.rstrip("=")
