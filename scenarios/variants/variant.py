"""What a variant is: subclasses of the model's rules, and where they come from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafkasim.scenarios.variants.rules import PARTS

Override = tuple[str, str]
"""A part of the model and the name of one of its rules."""


class VariantError(ValueError):
    """There is no such variant, or two variants override the same rule."""


@dataclass(frozen=True)
class Variant:
    """A broken or older rule, its source, what it breaks, and the scenario that shows it.

    ``rules`` are subclasses of the model's rules classes. ``source`` is a JIRA, a KIP, or
    Kafka's class and method for a rule that is older than both. ``breaks`` is the invariant or
    anomaly that fires first in ``scenario``; LIVE means that the run does not converge, or does
    not meet its ``expect`` table. ``claim`` is what Kafka promises and the variant breaks.
    """

    id: str
    source: str
    rules: tuple[type, ...]
    breaks: str
    scenario: str
    claim: str

    def overridden(self) -> dict[Override, Any]:
        """Return the methods that the variant replaces, by part and name."""
        found: dict[Override, Any] = {}
        for rules in self.rules:
            for override, method in overridden(rules).items():
                found.setdefault(override, method)
        return found


def overridden(rules: type) -> dict[Override, Any]:
    """Return the methods that a subclass of a rules class replaces, by part and name."""
    part = part_of(rules)
    found: dict[Override, Any] = {}
    for base in rules.__mro__:
        if base is PARTS[part]:
            break
        for name, method in vars(base).items():
            if not name.startswith("_"):
                found.setdefault((part, name), method)
    return found


def part_of(rules: type) -> str:
    """Return the part of the model whose rules a class overrides."""
    return next(part for part, base in PARTS.items() if issubclass(rules, base))
