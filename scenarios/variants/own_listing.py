"""All rules of the model: what a variant can override, and which built-in ones do."""

from __future__ import annotations

import inspect
from dataclasses import dataclass

from kafkasim.scenarios.variants.registry import VARIANTS
from kafkasim.scenarios.variants.rules import PARTS


@dataclass(frozen=True)
class Rule:
    """One rule: its part of the model, its method, what it decides, and who overrides it."""

    part: str
    base: str  # the class to subclass, as module:class
    name: str
    signature: str
    summary: str  # the first sentence of its docstring
    variants: tuple[str, ...]  # ids of built-in variants


def all_rules() -> list[Rule]:
    """Return the rules of all parts, in the order of their classes."""
    overriding: dict[tuple[str, str], list[str]] = {}
    for variant in VARIANTS.values():
        for rule in variant.overridden():
            overriding.setdefault(rule, []).append(variant.id)
    return [
        Rule(
            part,
            f"{base.__module__}:{base.__name__}",
            name,
            str(inspect.signature(method)).replace("'", ""),
            " ".join((method.__doc__ or "").split("\n\n")[0].split()),
            tuple(overriding.get((part, name), ())),
        )
        for part, base in PARTS.items()
        for name, method in vars(base).items()
        if inspect.isfunction(method) and not name.startswith("_")
    ]
