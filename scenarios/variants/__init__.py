"""Variants: rules that Kafka once had, or never should have; each shows that a check bites.

A variant is a subclass of one part's rules that overrides named methods. Several compose; two that
override one method are an error. Only ids travel to workers. Nothing is patched.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from scenarios.rules import PARTS, Rules


@dataclass(frozen=True)
class Variant:
    """A broken or older rule: where it comes from, what it breaks, which scenario shows it."""

    id: str
    source: str
    part: str
    rules: type
    breaks: str
    scenario: str
    claim: str

    def overridden(self) -> list[str]:
        """Return the methods that the variant replaces."""
        return sorted(name for name in vars(self.rules) if not name.startswith("_"))


class VariantError(ValueError):
    """No such variant, or two that override the same method."""


def catalogue() -> dict[str, Variant]:
    """Return every variant by id."""
    from scenarios.variants.mutations import MUTATIONS

    return {variant.id: variant for variant in MUTATIONS}


def compose(ids: Sequence[str]) -> Rules:
    """Return the rules with the variants of ``ids`` in force.

    Raises:
        VariantError: an unknown id, or two variants that override one method.
    """
    known = catalogue()
    rules = Rules()
    owner: dict[tuple[str, str], str] = {}
    chosen: dict[str, list[type]] = {}
    for name in ids:
        variant = known.get(name)
        if variant is None:
            raise VariantError(f"no variant {name!r}; allowed: {', '.join(known)}")
        for method in variant.overridden():
            other = owner.setdefault((variant.part, method), name)
            if other != name:
                raise VariantError(
                    f"variants {other} and {name} both override {variant.part}.{method}"
                )
        chosen.setdefault(variant.part, []).append(variant.rules)
    made: dict[str, Any] = {}
    for part, classes in chosen.items():
        unique = list(dict.fromkeys(classes))
        made[part] = type(f"Variant{PARTS[part].__name__}", tuple(unique), {})()
    return replace(rules, **made)
