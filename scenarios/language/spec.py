"""Read a scenario: TOML into checked tables, and overrides of single keys.

Every mistake is one line that names the file, the key and what is allowed
(:class:`ScenarioError`).
"""

from __future__ import annotations

import difflib
import math
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kafkasim.model.config import MAX_LONG
from kafkasim.scenarios.language.checks.check import check
from kafkasim.scenarios.language.checks.places import hint
from kafkasim.scenarios.language.tables import (
    KEYS,
    NAME,
    TOPIC_NAME,
    AxisTable,
    ClusterTable,
    ConsumerGroupTable,
    ExpectTable,
    FaultTable,
    LevelTable,
    LinkTable,
    MemberTable,
    MirrorTable,
    NodeTable,
    OperationTable,
    ProcessorTable,
    ProducerTable,
    Scenario,
    ShareGroupTable,
    StreamsTable,
    SweepTable,
    TopicTable,
    TwinTable,
    WhenTable,
)

DEPTH_MAX = 32
"""How deep tables and lists may lie in each other; a scenario needs seven."""

LISTS = (
    "topics", "workload", "streams", "faults", "operations", "clusters", "links", "mirrors",
)  # fmt: skip
"""The keys of a scenario that are lists of tables."""

SHOWN_MAX = 120
"""How many characters of a wrong value a message shows."""


class ScenarioError(ValueError):
    """A scenario cannot be used; the message is one line with file, key and what is allowed."""


def parse(data: Mapping[str, Any], source: str) -> Scenario:
    """Return a scenario from its data, as tomllib reads it; ``source`` names it in messages.

    Raises:
        ScenarioError: naming ``source``, the key and what is allowed.
    """
    try:
        _check_values(data)
        scenario = Scenario.model_validate(data)
        check(scenario)
    except ValidationError as error:
        raise ScenarioError(f"{source}: {_one_line(error, data)}") from None
    except ValueError as error:
        raise ScenarioError(f"{source}: {error}") from None
    return scenario


def load(path: Path) -> Scenario:
    """Read and check a scenario file.

    Raises:
        ScenarioError: no such file, not TOML, or not a scenario.
    """
    return parse(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ScenarioError: no such file, or not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file") from None
    except RecursionError:
        raise ScenarioError(f"{path}: not TOML: brackets are nested too deep") from None
    except ValueError as error:  # no TOML, no UTF-8, or an integer of thousands of digits
        raise ScenarioError(f"{path}: not TOML: {error}{_brackets(path)}") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None


def _brackets(path: Path) -> str:
    """Return a hint where a file has a table under the name of a list of tables."""
    text = path.read_bytes().decode(errors="replace")
    heads = [line.partition("#")[0].strip() for line in text.splitlines()]
    single = next((name for name in LISTS if f"[{name}]" in heads), None)
    return f"; write [[{single}]], not [{single}]" if single else ""


def override(data: Mapping[str, Any], path: str, value: Any, source: str) -> dict[str, Any]:
    """Return ``data`` with one key replaced: ``cluster.config.replica.lag.time.max.ms=5000``.

    Inside a ``config`` or ``features`` table the rest of the path is one name of Kafka's.

    Raises:
        ScenarioError: the path leads through something that is no table or list.
    """
    head, _, rest = path.partition(".")
    copy: Any = dict(data)
    if head in ("config", "features") and rest:
        known = copy.get(head, {})
        if not isinstance(known, Mapping):
            raise ScenarioError(f"{source}: {path}: {head} is not a table")
        copy[head] = {**known, rest: value}
    elif not rest:
        copy[head] = value
    else:
        child = copy.get(head, {})
        if isinstance(child, list):
            index, _, deeper = rest.partition(".")
            places = [str(place) for place in range(len(child))]
            if index not in places:
                known = f"entries 0 to {len(child) - 1}" if child else "no entries"
                raise ScenarioError(f"{source}: {path}: {head} has {known}, not {index!r}")
            items = list(child)
            place = int(index)
            if deeper and not isinstance(items[place], Mapping):
                raise ScenarioError(f"{source}: {path}: {head}.{index} is not a table")
            items[place] = override(items[place], deeper, value, source) if deeper else value
            copy[head] = items
        elif isinstance(child, Mapping):
            copy[head] = override(child, rest, value, source)
        else:
            raise ScenarioError(f"{source}: {path}: {head} is not a table")
    return dict(copy)


def _check_values(value: Any, place: str = "", depth: int = 0) -> None:
    """Check that data consist of tables, lists, texts, truth values and numbers of 64 bits.

    Raises:
        ValueError: naming the first other value. Every number of a scenario can become a column of
            the trace, which has 64 bits for it.
    """
    if depth > DEPTH_MAX:
        raise ValueError(f"{place}: tables and lists may be nested {DEPTH_MAX} deep at most")
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise ValueError(f"{place}: the key {key!r} is not a string")
            _check_values(inner, f"{place}.{key}" if place else key, depth + 1)
    elif isinstance(value, list | tuple):
        for index, inner in enumerate(value):
            _check_values(inner, f"{place}.{index}", depth + 1)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{place}: {value} is not a finite number")
    elif isinstance(value, int) and not -MAX_LONG - 1 <= value <= MAX_LONG:
        raise ValueError(f"{place}: the number does not fit 64 bits")
    elif value is not None and not isinstance(value, str | int | float):
        raise ValueError(f"{place}: {value} is a {type(value).__name__}; give text or a number")


def _misspells(one: Any, missing: Any) -> bool:
    """Return whether an error is an unknown key that looks like a missing one."""
    names = str(one["loc"][-1]), str(missing["loc"][-1])
    return one["type"] == "extra_forbidden" and bool(difflib.get_close_matches(names[0], names[1:]))


def _one_line(error: ValidationError, data: Mapping[str, Any]) -> str:
    """Return the first mistake: the key's path, its value, and what is allowed."""
    every = error.errors()
    first = every[0]
    if first["type"] == "missing":  # a misspelled key says more than the key that it leaves missing
        beside = [one for one in every if one["loc"][:-1] == first["loc"][:-1]]
        first = next((one for one in beside if _misspells(one, first)), first)
    place = ".".join(str(part) for part in first["loc"] if part not in _WORKLOADS)
    kind, context = first["type"], first.get("ctx", {})
    if kind == "extra_forbidden":
        table, _, key = place.rpartition(".")
        allowed = f"allowed: {', '.join(_allowed(first['loc']))}"
        return f"{place}: unknown key; {hint(table, key, first['input'], data) or allowed}"
    if kind == "missing":
        return f"{place}: is missing"
    if kind == "value_error":
        message = str(first["msg"]).removeprefix("Value error, ")
        return f"{place}: {message}" if place else message
    if kind.startswith("union_tag_"):
        tag = context.get("tag")
        found = "is missing" if tag is None else f"{tag!r} is unknown"
        return f"{place}.kind: {found}; allowed: {', '.join(map(repr, _WORKLOADS))}"
    if ".literal[" in place:  # one member of a union: the other members are not in its message
        place = place.partition(".literal[")[0]
        expected = context["expected"]
        return f"{place}: {_short(first['input'])} is none of {expected} or an integer"
    wanted = _WANTED.get(kind, str(first["msg"])).format(**context)
    wanted = _PATTERNS.get(context.get("pattern", ""), wanted)
    if kind == "list_type" and place in LISTS:
        wanted += f": [[{place}]] begins each of its tables"
    return f"{place}: {_short(first['input'])} is not valid; {wanted}"


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}…"


def _allowed(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table that has the misspelt key."""
    model: Any = Scenario
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        if part in _WORKLOADS:
            model = _WORKLOADS[part]
            continue
        for name, field in model.model_fields.items():
            if (field.alias or name) == part:
                model = next((m for m in _TABLES if m.__name__ in str(field.annotation)), model)
    return sorted(field.alias or name for name, field in model.model_fields.items())


_WORKLOADS: dict[Any, Any] = {
    "producer": ProducerTable,
    "consumer-group": ConsumerGroupTable,
    "processor": ProcessorTable,
    "share-group": ShareGroupTable,
}
_TABLES = (
    ClusterTable, MemberTable, LinkTable, MirrorTable, TopicTable, FaultTable, OperationTable,
    ExpectTable,
    TwinTable, WhenTable,
    NodeTable, StreamsTable, SweepTable, AxisTable, LevelTable,
)  # fmt: skip
_WANTED = {
    "literal_error": "allowed: {expected}",
    "greater_than_equal": "allowed: {ge} or more",
    "less_than_equal": "allowed: {le} or less",
    "too_short": "give {min_length} or more",
    "list_type": "give a list",
    "dict_type": "give a table",
    "model_type": "give a table",
    "model_attributes_type": "give a table",
    "string_type": "give a string",
    "int_parsing": "give an integer",
    "int_type": "give an integer",
    "bool_parsing": "give true or false",
    "bool_type": "give true or false",
}
"""Pydantic's kind of error to what is allowed."""

_PATTERNS = {
    NAME: "give letters, digits and dashes",
    TOPIC_NAME: "give letters, digits, dots, underscores and dashes",
    KEYS: "allowed: none, uniform:N, zipf:N:S, cycle:N",
}
"""A key's pattern to what is allowed."""
