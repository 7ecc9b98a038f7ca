"""Write a scenario as the TOML file that a person would write: short tables on one line."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import tomlkit

WIDTH = 100
"""The longest line of a table or list on one line."""


def toml_text(data: Mapping[str, Any], comments: Sequence[str] = ()) -> str:
    """Return a scenario's data as TOML, with comment lines before it."""
    document = tomlkit.document()
    for line in comments:
        document.add(tomlkit.comment(line) if line else tomlkit.nl())
    if comments:
        document.add(tomlkit.nl())
    for key, value in data.items():
        document.add(key, _item(key, value, top=True))
    return tomlkit.dumps(document)


def _item(key: str, value: Any, *, top: bool = False) -> Any:
    """Return a value as a TOML item; a table below the top is on one line if it fits."""
    if isinstance(value, Mapping):
        if not top and len(_one_line(value).as_string()) + len(key) < WIDTH:
            return _one_line(value)
        table = tomlkit.table()
        ordered = sorted(
            value, key=lambda name: isinstance(_item(name, value[name]), tomlkit.items.Table)
        )
        for name in ordered:
            table.add(name, _item(name, value[name]))
        return table
    if isinstance(value, list) and value and all(isinstance(each, Mapping) for each in value):
        tables = tomlkit.aot()
        for each in value:
            tables.append(_item(key, each, top=True))
        return tables
    return tomlkit.item(value)


def _one_line(value: Mapping[str, Any]) -> Any:
    table = tomlkit.inline_table()
    for name, inner in value.items():
        table.add(name, _one_line(inner) if isinstance(inner, Mapping) else inner)
    return table
