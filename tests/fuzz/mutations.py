"""Seeded mutations of what a user gives: scenario data, properties files, manifests, bytes.

The same ``random.Random`` gives the same mutant. Data are tables, lists and values as tomllib or
json read them; :func:`to_toml` writes them back.
"""

from __future__ import annotations

import copy
import datetime
import json
import random
from collections.abc import Callable
from typing import Any

ODD_VALUES: tuple[Any, ...] = (
    0, 1, 3, -1, 2**31 - 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**30, 10**400, 0.0, -0.5, 1e308,
    float("inf"), float("-inf"), float("nan"), True, False, "", " ", "x", "3", "-1", "1e400", "nan",
    "inf", "true", "None", "any-broker", "leader:", "leader:-", "leader:x-0", "@node", "broker-0",
    "broker-1", "coordinator:", "1us", "0s", "1s", "9" * 400 + "s", "1/s", "0.0000001/s", "1e9/s",
    "٣s", "²", "\x00", "\n", "a\nb", "ключ", "𝄞", "x" * 300, "\x1b[31m", "{}", "%s", "[]",
    [], [3], [""], [[]], [[[]]], [None], [{}], {}, {"": 1}, {"x": 3}, {"x": {"y": [1]}},
    ["1s", "2s"], ["2s", "1s"], ["1s"], [True], [1.5], {"0": 1}, datetime.date(2024, 1, 1),
    datetime.datetime(2024, 1, 1, 1, 1, 1), datetime.time(1, 1),
)  # fmt: skip
"""Values of wrong types, extreme numbers, and words that mean something somewhere else."""

ODD_KEYS = (
    "",
    " ",
    "x",
    "0",
    "-1",
    "config",
    "a.b",
    "kind",
    "name",
    "node",
    "set",
    "\n",
    "é",
    "at",
)


def mutate(rng: random.Random, data: Any, steps: int = 0) -> Any:
    """Return a copy of ``data`` with so many mutations; 0 draws one to three."""
    mutant = copy.deepcopy(data)
    for _ in range(steps or rng.choice((1, 1, 1, 2, 3))):
        places = _places(mutant)
        if not places:
            return mutant
        container, key = rng.choice(places)
        rng.choice(_MUTATIONS)(rng, container, key, places)
    return mutant


def _places(data: Any) -> list[tuple[Any, Any]]:
    """Return every (container, key) of nested tables and lists."""
    found: list[tuple[Any, Any]] = []
    keys = list(data) if isinstance(data, dict) else range(len(data))
    for key in keys:
        found.append((data, key))
        if isinstance(data[key], dict | list):
            found += _places(data[key])
    return found


def _delete(_: random.Random, container: Any, key: Any, __: Any) -> None:
    del container[key]


def _duplicate(rng: random.Random, container: Any, key: Any, _: Any) -> None:
    again = copy.deepcopy(container[key])
    if isinstance(container, list):
        container.insert(rng.randrange(len(container) + 1), again)
    else:
        container[rng.choice(list(container))] = again


def _replace(rng: random.Random, container: Any, key: Any, _: Any) -> None:
    container[key] = copy.deepcopy(rng.choice(ODD_VALUES))


def _wrap(rng: random.Random, container: Any, key: Any, _: Any) -> None:
    inner = container[key]
    container[key] = rng.choice(([inner], {"x": inner}, str(inner), [inner, inner], {"": inner}))


def _scale(rng: random.Random, container: Any, key: Any, places: Any) -> None:
    old = container[key]
    if isinstance(old, int | float) and not isinstance(old, bool):
        container[key] = rng.choice((-old, old + 1, old - 1, old * 1000, old / 2, 10**12, -1, 0))
    else:
        _misspell(rng, container, key, places)


def _misspell(rng: random.Random, container: Any, key: Any, places: Any) -> None:
    old = container[key]
    if isinstance(old, str) and old:
        at = rng.randrange(len(old))
        letter = rng.choice("x0-.: \n")
        container[key] = rng.choice(
            (old[:at] + old[at + 1 :], old[:at] + letter + old[at:], old * 2)
        )
    else:
        _replace(rng, container, key, places)


def _rename(rng: random.Random, container: Any, key: Any, places: Any) -> None:
    if isinstance(container, dict):
        other = rng.choice([*ODD_KEYS, f"{key}x", str(key)[1:], str(key).upper()])
        container[other] = container.pop(key)
    else:
        _replace(rng, container, key, places)


def _add(rng: random.Random, container: Any, key: Any, _: Any) -> None:
    inside = container[key] if isinstance(container[key], dict | list) else container
    if isinstance(inside, dict):
        inside[rng.choice(ODD_KEYS)] = copy.deepcopy(rng.choice(ODD_VALUES))
    else:
        inside.append(copy.deepcopy(rng.choice(ODD_VALUES)))


def _transplant(rng: random.Random, container: Any, key: Any, places: Any) -> None:
    other, at = rng.choice(places)
    container[key] = copy.deepcopy(other[at])


_MUTATIONS: tuple[Callable[[random.Random, Any, Any, Any], None], ...] = (
    _delete, _duplicate, _replace, _replace, _wrap, _scale, _misspell, _rename, _add, _transplant,
)  # fmt: skip


# ----------------------------------------------------------------------------------------- text


def to_toml(data: dict[str, Any]) -> str:
    """Return TOML: a line for each key of the top, with inline tables and arrays."""
    return "".join(f"{_string(key)} = {_value(value)}\n" for key, value in data.items())


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, dict):
        inside = ", ".join(f"{_string(key)} = {_value(each)}" for key, each in value.items())
        return f"{{ {inside} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(_value(each) for each in value)}]"
    if isinstance(value, str):
        return _string(value)
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return "0" if value is None else repr(value)


def _string(text: str) -> str:
    return json.dumps(str(text), ensure_ascii=False).replace("\x7f", "\\u007f")


def mutate_text(rng: random.Random, text: str) -> bytes:
    """Return the bytes of a text file with lines and characters changed."""
    lines = text.splitlines()
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(lines)) if lines else 0
        line = lines[at] if lines else ""
        key, _, value = line.partition("=")
        odd = str(rng.choice(ODD_VALUES))
        lines[at : at + 1] = rng.choice((
            [], [line, line], [f"{key}={odd}"], [f"{odd}={value}"], [key], [value], [f"={value}"],
            [f"{key}x={value}"], [line[: len(line) // 2]], [f"{key}={value} \\"], [line * 50],
        ))  # fmt: skip
    written = "\n".join(lines).encode()
    return mutate_bytes(rng, written) if rng.random() < 0.2 else written


def mutate_bytes(rng: random.Random, content: bytes) -> bytes:
    """Return bytes with some changed, cut off, inserted or moved."""
    mutant = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        size = len(mutant)
        at = rng.randrange(size) if size else 0
        kind = rng.randrange(7)
        if kind == 0:
            del mutant[at:]
        elif kind == 1:
            mutant[at:at] = rng.randbytes(rng.randint(1, 16))
        elif kind == 2:
            del mutant[at : at + rng.randint(1, 64)]
        elif kind == 3 and size > 64:  # the footer: where each column lies, and its type
            mutant[-rng.randint(1, min(size, 64 + size // 8))] = rng.randrange(256)
        elif size:
            mutant[at] = rng.choice((0, 1, 255, mutant[at] ^ 1 << rng.randrange(8)))
    return bytes(mutant)
