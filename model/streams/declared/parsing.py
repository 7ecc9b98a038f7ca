"""From the tables of a scenario file to chains of steps with checked arguments.

    [[streams.topology]]
    stream = "orders"
    steps = [
      { select-key = "value['user']" },
      "group-by-key",
      { windowed-by = "tumbling", size = "10s", grace = "2s" },
      "count",
      { suppress = "until-window-closes" },
      "to-stream",
      { to = "counts" },
    ]

A chain begins with `stream`, `table`, or `from`: the name that an earlier chain has by `as`. A
table with only `store` adds a store for processors. Times are durations such as "10s", or ms.
`value-deserializer` of a source, such as "int(value)", fails at corrupt records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafkasim.model.streams.declared.expressions import Expression

Check = Callable[[Any], Any]
"""Returns what an argument means; raises ValueError with what is allowed."""

_UNITS_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}


@dataclass(frozen=True, slots=True)
class Step:
    """One step: its name, its main argument (True if it has none), and its options."""

    place: str
    name: str
    argument: Any
    options: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Chain:
    """Where a chain begins, its steps, and the name of its result."""

    place: str
    kind: str  # stream, table, from, store
    source: Any  # topics of a stream, else a name
    options: dict[str, Any]
    steps: tuple[Step, ...]
    named: str | None


@dataclass(frozen=True, slots=True)
class Shape:
    """What a step may be given; ``argument`` None: nothing."""

    argument: Check | None = None
    options: dict[str, Check] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    optional_argument: bool = False


def text(value: Any) -> str:
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ValueError(f"{value!r} is no text")
    return value


def texts(value: Any) -> tuple[str, ...]:
    """Return one text or several as a tuple."""
    several = value if isinstance(value, list | tuple) else [value]
    return tuple(text(each) for each in several)


def flag(value: Any) -> bool:
    """Return true or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r} is not allowed; allowed: true, false")
    return value


def count(value: Any) -> int:
    """Return a positive integer."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{value!r} is not allowed; allowed: a number of at least 1")
    return value


def milliseconds(value: Any) -> int:
    """Return a duration in ms."""
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    match = re.fullmatch(r"(\d+)(ms|s|m|h|d)", value) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f'{value!r} is no duration; allowed: such as "250ms", "20s", "5m", "1d"')
    return int(match[1]) * _UNITS_MS[match[2]]


def anything(value: Any) -> Any:
    """Return a constant."""
    return value


def one_of(*names: str) -> Check:
    """Return the check for one of some names."""

    def check(value: Any) -> Any:
        if value not in names:
            raise ValueError(f"{value!r} is not allowed; allowed: {', '.join(names)}")
        return value

    return check


def expression(*names: str) -> Check:
    """Return the check for an expression over some names."""
    return lambda value: Expression(text(value), names)


STORE: dict[str, Check] = {"store": text, "caching": flag, "logging": flag}
KEPT = {**STORE, "retention": milliseconds}
WITHIN = {
    "within": milliseconds, "before": milliseconds, "after": milliseconds, "grace": milliseconds,
}  # fmt: skip
PAIR = ("key", "value")
JOINS = Shape(
    text, {"value": expression("key", "left", "right"), **WITHIN, **STORE}, required=("value",)
)

SHAPES: dict[str, Shape] = {
    "filter": Shape(expression(*PAIR), STORE),
    "filter-not": Shape(expression(*PAIR), STORE),
    "map": Shape(expression(*PAIR)),
    "map-values": Shape(expression(*PAIR), STORE),
    "select-key": Shape(expression(*PAIR)),
    "flat-map": Shape(expression(*PAIR)),
    "flat-map-values": Shape(expression(*PAIR)),
    "process": Shape(text, {"stores": texts}),
    "process-values": Shape(text, {"stores": texts}),
    "punctuate": Shape(
        one_of("stream-time", "wall-clock-time"),
        {"every": milliseconds, "key": expression("time"), "value": expression("time")},
        required=("every", "value"),
    ),
    "merge": Shape(text),
    "repartition": Shape(text, {"partitions": count}, optional_argument=True),
    "to": Shape(text),
    "to-table": Shape(None, STORE),
    "to-stream": Shape(),
    "group-by-key": Shape(None, {"name": text}),
    "group-by": Shape(expression(*PAIR), {"name": text}),
    "windowed-by": Shape(
        one_of("tumbling", "hopping", "session"),
        {"size": milliseconds, "advance": milliseconds, "gap": milliseconds, "grace": milliseconds},
    ),
    "emit": Shape(one_of("on-window-update", "on-window-close")),
    "count": Shape(None, KEPT),
    "reduce": Shape(
        expression("aggregate", "value"),
        {"subtract": expression("aggregate", "value"), **KEPT},
    ),
    "aggregate": Shape(
        expression("key", "value", "aggregate"),
        {
            "initial": anything,
            "subtract": expression("key", "value", "aggregate"),
            "merge": expression("key", "one", "other"),
            **KEPT,
        },
        required=("initial",),
    ),
    "suppress": Shape(
        one_of("until-window-closes", "until-time-limit"),
        {
            "limit": milliseconds,
            "max-records": count,
            "max-bytes": count,
            "when-full": one_of("emit-early", "shut-down"),
        },
    ),
    "join": JOINS,
    "left-join": JOINS,
    "outer-join": JOINS,
}  # fmt: skip
"""Every step of a chain."""

SOURCES: dict[str, Shape] = {
    "stream": Shape(
        texts, {"reset": one_of("earliest", "latest"), "value-deserializer": expression("value")}
    ),
    "table": Shape(text, {**STORE, "value-deserializer": expression("value")}),
    "from": Shape(text),
    "store": Shape(text, {"logging": flag}),
}
"""What a chain begins with."""


def parse(tables: Any, place: str) -> tuple[Chain, ...]:
    """Return the chains of a topology.

    Raises:
        ValueError: a mistake; the line begins with ``place`` and ends with what is allowed.
    """
    if not isinstance(tables, Sequence) or isinstance(tables, str) or not tables:
        raise ValueError(f"{place}: a list of chains is needed, each with stream, table or from")
    return tuple(_chain(table, f"{place}.{n}") for n, table in enumerate(tables))


def _chain(table: Any, place: str) -> Chain:
    if not isinstance(table, Mapping):
        raise ValueError(f"{place}: a table is needed, with one of: {', '.join(SOURCES)}")
    kind = next((key for key in ("stream", "table", "from", "store") if key in table), None)
    if kind is None:
        raise ValueError(f"{place}: where does it begin? allowed: {', '.join(SOURCES)}")
    rest = {key: value for key, value in table.items() if key not in (kind, "steps", "as")}
    if kind == "table" and "store" in table:
        rest["store"] = table["store"]
    source = _checked(SOURCES[kind].argument, table[kind], f"{place}.{kind}")
    options = _options(SOURCES[kind], rest, place, ("steps", "as"))
    steps = table.get("steps", [])
    if not isinstance(steps, Sequence) or isinstance(steps, str):
        raise ValueError(f"{place}.steps: a list is needed; allowed: {', '.join(SHAPES)}")
    parsed = tuple(_step(step, f"{place}.steps.{n}") for n, step in enumerate(steps))
    named = table.get("as")
    return Chain(place, kind, source, options, parsed, None if named is None else text(named))


def _step(step: Any, place: str) -> Step:
    given = {step: True} if isinstance(step, str) else step
    if not isinstance(given, Mapping):
        raise ValueError(f"{place}: a step is a name or a table; allowed: {', '.join(SHAPES)}")
    name = next((key for key in given if key in SHAPES), None)
    if name is None:
        raise ValueError(f"{place}: no step {', '.join(given)}; allowed: {', '.join(SHAPES)}")
    shape, argument = SHAPES[name], given[name]
    if argument is True and (shape.argument is None or shape.optional_argument):
        pass
    elif shape.argument is None:
        raise ValueError(f"{place}.{name}: {argument!r} is not allowed; allowed: true")
    else:
        argument = _checked(shape.argument, argument, f"{place}.{name}")
    rest = {key: value for key, value in given.items() if key != name}
    return Step(place, name, argument, _options(shape, rest, place))


def _options(
    shape: Shape, given: Mapping[str, Any], place: str, more: Iterable[str] = ()
) -> dict[str, Any]:
    for key in given:
        if key not in shape.options:
            allowed = ", ".join([*shape.options, *more]) or "nothing else"
            raise ValueError(f"{place}.{key}: no such key; allowed: {allowed}")
    for key in shape.required:
        if key not in given:
            raise ValueError(f"{place}: {key} is missing; allowed: {', '.join(shape.options)}")
    return {
        key: _checked(shape.options[key], value, f"{place}.{key}") for key, value in given.items()
    }


def _checked(check: Check | None, value: Any, place: str) -> Any:
    assert check is not None, place
    try:
        return check(value)
    except ValueError as error:
        raise ValueError(f"{place}: {error}") from None
