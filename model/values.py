"""The decorator of everything that crosses a boundary (messages, effects, facts); random ids.

A value is a dataclass with slots that nobody changes after handing it over. To freeze a dataclass
makes its construction five times as slow (a FetchRequest with two partitions: 1721 ns against 343).
So values are frozen for mypy and where unit tests run, which check the rule, and plain in a run.

Every run imports hundreds of them, so :func:`value` has nothing compiled but ``__init__``: the
dataclass would compile ``__eq__`` and ``__repr__`` of each, and write a signature in place of a
docstring, which takes half as long again.
"""

import base64
import random
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar, dataclass_transform

T = TypeVar("T")

FROZEN = False
"""Whether values are frozen, also at run time: tests/conftest.py says so before any is defined."""


@dataclass_transform(frozen_default=True)
def value(cls: type[T]) -> type[T]:
    """Make a class a value: a dataclass with slots, frozen where unit tests run."""
    if TYPE_CHECKING:
        return cls
    cls.__doc__ = cls.__doc__ or cls.__name__
    made = dataclass(cls, slots=True, frozen=FROZEN, eq=FROZEN, repr=False)
    own: dict[str, Any] = _comparing(made)
    for name, function in own.items():
        if cls.__dict__.get(name) is None:
            setattr(made, name, function)
    return made


def _comparing(cls: type) -> dict[str, Any]:
    """Return the methods of a value that look at all of its fields."""
    declared: dict[str, Any] = cls.__dataclass_fields__  # type: ignore[attr-defined]
    names = [name for name, field in declared.items() if field.repr]
    content = attrgetter(*declared) if declared else lambda _value: ()

    def equal(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return content(self) == content(other)
        return NotImplemented

    def shown(self: Any) -> str:
        values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        return f"{self.__class__.__qualname__}({values})"

    own: dict[str, Any] = {"__eq__": equal, "__repr__": shown}
    return own if FROZEN else {**own, "__hash__": None}  # what is not frozen has no hash


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
