"""Keys and values of records as facts tell them: JSON, with the types of Streams' own tuples."""

from __future__ import annotations

import json
from typing import Any

from kafkasim.model.streams.records import Change, Windowed

_TYPES: dict[str, type] = {"Windowed": Windowed, "Change": Change}


def told(data: Any) -> str:
    """Return a key or a value as text."""
    if isinstance(data, str):
        return json.dumps(data)
    return str(data) if type(data) is int else json.dumps(_plain(data))


def untold(text: str) -> Any:
    """Return the key or value that a text tells."""
    return _typed(json.loads(text))


def _plain(data: Any) -> Any:
    if isinstance(data, Windowed | Change):
        return {"": type(data).__name__, "of": [_plain(each) for each in data]}
    if isinstance(data, bytes):
        return data.hex()
    return data


def _typed(data: Any) -> Any:
    if isinstance(data, dict) and data.get("") in _TYPES:
        return _TYPES[data[""]](*[_typed(each) for each in data["of"]])
    return data
