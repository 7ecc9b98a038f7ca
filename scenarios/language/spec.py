"""Read a scenario: TOML into checked tables, and overrides of single keys.

Every mistake is one line that names the file, the key and what is allowed
(:class:`ScenarioError`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from kafkasim.scenarios.language.checks.check import check
from kafkasim.scenarios.language.tables import (
    KEYS,
    NAME,
    TOPIC_NAME,
    ClusterTable,
    ConsumerGroupTable,
    ExpectTable,
    FaultTable,
    NodeTable,
    OperationTable,
    ProducerTable,
    Scenario,
    TopicTable,
    TwinTable,
    WhenTable,
)


class ScenarioError(ValueError):
    """A scenario cannot be used; the message is one line with file, key and what is allowed."""


def parse(data: Mapping[str, Any], source: str) -> Scenario:
    """Return a scenario from its data, as tomllib reads it; ``source`` names it in messages.

    Raises:
        ScenarioError: naming ``source``, the key and what is allowed.
    """
    try:
        scenario = Scenario.model_validate(data)
        check(scenario)
    except ValidationError as error:
        raise ScenarioError(f"{source}: {_one_line(error)}") from None
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
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not TOML: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None


def override(data: Mapping[str, Any], path: str, value: Any, source: str) -> dict[str, Any]:
    """Return ``data`` with one key replaced: ``cluster.config.replica.lag.time.max.ms=5000``.

    Inside a ``config`` table the rest of the path is one Kafka property name.

    Raises:
        ScenarioError: the path leads through something that is no table or list.
    """
    head, _, rest = path.partition(".")
    copy: Any = dict(data)
    if head == "config" and rest:
        copy[head] = {**copy.get(head, {}), rest: value}
    elif not rest:
        copy[head] = value
    else:
        child = copy.get(head, {})
        if isinstance(child, list):
            index, _, deeper = rest.partition(".")
            if not index.isdigit() or int(index) >= len(child):
                raise ScenarioError(
                    f"{source}: {path}: {head} has entries 0 to {len(child) - 1}, not {index!r}"
                )
            items = list(child)
            items[int(index)] = (
                override(items[int(index)], deeper, value, source) if deeper else value
            )
            copy[head] = items
        elif isinstance(child, Mapping):
            copy[head] = override(child, rest, value, source)
        else:
            raise ScenarioError(f"{source}: {path}: {head} is not a table")
    return dict(copy)


def _one_line(error: ValidationError) -> str:
    """Return the first mistake: the key's path, its value, and what is allowed."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in _WORKLOADS)
    kind, context = first["type"], first.get("ctx", {})
    if kind == "extra_forbidden":
        return f"{place}: unknown key; allowed: {', '.join(_allowed(first['loc']))}"
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
        return f"{place}: {first['input']!r} is none of {context['expected']} or an integer"
    wanted = _WANTED.get(kind, str(first["msg"])).format(**context)
    wanted = _PATTERNS.get(context.get("pattern", ""), wanted)
    return f"{place}: {first['input']!r} is not valid; {wanted}"


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


_WORKLOADS: dict[Any, Any] = {"producer": ProducerTable, "consumer-group": ConsumerGroupTable}
_TABLES = (
    ClusterTable, TopicTable, FaultTable, OperationTable, ExpectTable, TwinTable, WhenTable,
    NodeTable,
)  # fmt: skip
_WANTED = {
    "literal_error": "allowed: {expected}",
    "greater_than_equal": "allowed: {ge} or more",
    "less_than_equal": "allowed: {le} or less",
    "too_short": "give {min_length} or more",
    "list_type": "give a list",
    "dict_type": "give a table",
    "model_type": "give a table",
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
    KEYS: "allowed: none, uniform:N, zipf:N:S",
}
"""A key's pattern to what is allowed."""
