"""Variants: rules that Kafka once had, or never should have; each shows that a check bites.

A variant is a subclass of one part's rules (or of several parts') that overrides named methods.
Several compose; two that override one method are an error. Only ids travel to workers. Nothing is
patched.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kafkasim.scenarios.variants.rules import PARTS, Rules

Override = tuple[str, str]
"""A part and the name of one of its rules."""


@dataclass(frozen=True)
class Variant:
    """A broken or older rule: where it comes from, what it breaks, which scenario shows it.

    ``breaks`` is the invariant that fires first in ``scenario``; LIVE is a run that does not
    converge, or that does not show, or shows, what its ``expect`` table says.
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
            part = part_of(rules)
            for base in rules.__mro__:
                if base is PARTS[part]:
                    break
                for name, method in vars(base).items():
                    if not name.startswith("_"):
                        found.setdefault((part, name), method)
        return found


class VariantError(ValueError):
    """No such variant, or two that override the same method."""


def part_of(rules: type) -> str:
    """Return the part of the model whose rules a class overrides."""
    return next(part for part, base in PARTS.items() if issubclass(rules, base))


def catalogue() -> dict[str, Variant]:
    """Return every variant by id: the historical bugs, then the mutations."""
    from kafkasim.scenarios.variants.bugs.bugs import BUGS
    from kafkasim.scenarios.variants.mutations import MUTATIONS

    return {variant.id: variant for variant in (*BUGS, *MUTATIONS)}


MODES: dict[str, str] = {
    "controller": "kraft", "raft": "kraft", "zk_controller": "zookeeper", "zookeeper": "zookeeper",
}  # fmt: skip
"""The mode that has a part; the other parts both have."""


def mode(ids: Sequence[str]) -> str | None:
    """Return the one mode in which the variants can show; None is either."""
    known = catalogue()
    modes: dict[str, None] = {}
    for variant in [known[name] for name in ids if name in known]:
        parts = [MODES.get(part_of(rules)) for rules in variant.rules]
        modes |= dict.fromkeys([each for each in parts if each is not None])
    return next(iter(modes)) if len(modes) == 1 else None


def _hint(name: str, known: Mapping[str, Variant]) -> str:
    near = [each for each in known if name and each.startswith(name)]
    near = near or difflib.get_close_matches(name, known, n=3, cutoff=0.4)
    meant = f"did you mean {' or '.join(near[:3])}? " if near else ""
    return f"{meant}kafkasim list --variants has them all"


def compose(ids: Sequence[str]) -> Rules:
    """Return the rules with the variants of ``ids`` in force.

    Raises:
        VariantError: an unknown id, or two variants that override one method.
    """
    known = catalogue()
    owner: dict[Override, tuple[str, Any]] = {}
    chosen: dict[str, dict[type, None]] = {}
    for name in ids:
        variant = known.get(name)
        if variant is None:
            raise VariantError(f"no variant {name!r}; {_hint(name, known)}")
        for (part, method), body in variant.overridden().items():
            other, same = owner.setdefault((part, method), (name, body))
            if same is not body:
                raise VariantError(f"variants {other} and {name} both override {part}.{method}")
        for rules in variant.rules:
            chosen.setdefault(part_of(rules), {})[rules] = None
    made: dict[str, Any] = {
        part: type(f"Variant{PARTS[part].__name__}", tuple(classes), {})()
        for part, classes in chosen.items()
    }
    return replace(Rules(), **made)
