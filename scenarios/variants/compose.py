"""Compose variants into the rules of a run.

The rules of a part become an instance of a new class whose bases are the variants' subclasses. So
several variants can be composed, unless two override the same method. Worker processes get only
their ids. An id names a built-in variant, or a file of a user's own rules.

A rule decides from its arguments alone, so two rules can be asked the same question: that tells
when a variant decides otherwise than the rule that it replaces. A variant that never does so in a
run cannot show anything there.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from kafkasim.scenarios.language.files.rules import rules_file, shown
from kafkasim.scenarios.variants.own_loading import own_variant
from kafkasim.scenarios.variants.registry import VARIANTS
from kafkasim.scenarios.variants.rules import PARTS, Rules
from kafkasim.scenarios.variants.variant import Override, Variant, VariantError, part_of

MODES: dict[str, str] = {
    "controller": "kraft", "raft": "kraft", "zk_controller": "zookeeper", "zookeeper": "zookeeper",
}  # fmt: skip
"""The mode in which a part runs, for the parts that run in one mode only."""


def compose(ids: Sequence[str]) -> Rules:
    """Return the rules with the variants of ``ids`` in force.

    Raises:
        VariantError: an unknown id, or two variants that override one method.
    """
    owner: dict[Override, tuple[str, Any]] = {}
    chosen: dict[str, dict[type, None]] = {}
    for name in ids:
        variant = variant_of(name)
        for (part, method), body in variant.overridden().items():
            other, same = owner.setdefault((part, method), (name, body))
            if same is not body:
                both = f"{shown(other)} and {shown(name)}"
                raise VariantError(f"variants {both} both override {part}.{method}")
        for rules in variant.rules:
            chosen.setdefault(part_of(rules), {})[rules] = None
    made: dict[str, Any] = {
        part: type(f"Variant{PARTS[part].__name__}", tuple(classes), {})()
        for part, classes in chosen.items()
    }
    return replace(Rules(), **made)


def overridden_by(ids: Sequence[str]) -> list[Override]:
    """Return the rules that the variants of ``ids`` replace."""
    return list(dict.fromkeys(each for name in ids for each in variant_of(name).overridden()))


def watched(
    rules: Rules, others: Rules, overridden: Iterable[Override], act: Callable[[str], bool]
) -> Rules:
    """Return ``rules`` that tell when they decide otherwise than the ``others``.

    ``act(rule)`` is called when one of the ``overridden`` rules does so, until it returns true. The
    rule is part and method, e.g. ``replication.truncation_offset``. A rule that returns nothing
    does something instead of deciding: it acts whenever it is called.
    """
    methods: dict[str, dict[str, Any]] = {}
    for part, method in overridden:
        own, other = getattr(getattr(rules, part), method), getattr(getattr(others, part), method)
        tells = _compared(own, other, partial(act, f"{part}.{method}"))
        methods.setdefault(part, {})[method] = tells
    made: dict[str, Any] = {}
    for part, own_methods in methods.items():
        kind = type(getattr(rules, part))
        made[part] = type(kind.__name__, (kind,), own_methods)()
    return replace(rules, **made)


def _compared(
    own: Callable[..., Any], other: Callable[..., Any], act: Callable[[], bool]
) -> Callable[..., Any]:
    """Return a method that decides as ``own`` does, and is compared until ``act`` is content."""
    told = False
    performs = "None" in (own.__annotations__.get("return"), other.__annotations__.get("return"))

    def decide(_self: object, *args: Any, **kwargs: Any) -> Any:
        nonlocal told
        decided = own(*args, **kwargs)
        if not told and (performs or _differs(other, args, kwargs, decided)):
            told = act()
        return decided

    return decide


def _differs(
    other: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], decided: Any
) -> bool:
    """Return whether another rule decides otherwise, or has no answer to such a question."""
    try:
        return bool(other(*args, **kwargs) != decided)
    except Exception:  # it asserts what the variant has broken
        return True


def variant_of(name: str) -> Variant:
    """Return the variant of an id.

    Raises:
        VariantError: there is none, or its file has none.
    """
    file = rules_file(name)
    if file is not None:
        return own_variant(file)
    if name not in VARIANTS:
        raise VariantError(f"no variant {name!r}; {_hint(name)}")
    return VARIANTS[name]


def only_mode(ids: Sequence[str]) -> str | None:
    """Return the mode in which the variants can show; None if both modes, or no mode, will do."""
    modes: dict[str, None] = {}
    for variant in [variant_of(name) for name in ids]:
        parts = [MODES.get(part_of(rules)) for rules in variant.rules]
        modes |= dict.fromkeys([each for each in parts if each is not None])
    return next(iter(modes)) if len(modes) == 1 else None


def _hint(name: str) -> str:
    """Return which variants a user may mean who gives a part of an id, or its JIRA or KIP."""
    number = re.fullmatch("([A-Z])([0-9])", name.upper())
    start = f"{number[1]}0{number[2]}" if number else name
    near = [each for each in VARIANTS if start and each.startswith(start)]
    near = near or [
        f"{each} ({variant.source})"
        for each, variant in VARIANTS.items()
        if re.search(rf"\b{re.escape(name)}\b", variant.source, re.IGNORECASE) and name
    ]
    near = near or difflib.get_close_matches(name, VARIANTS, n=3, cutoff=0.4)
    meant = f"did you mean {' or '.join(near[:3])}? " if near else ""
    return f"{meant}kafkasim list --variants has them all (or give a file of rules, FILE.py)"
