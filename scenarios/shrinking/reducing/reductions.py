"""How a scenario gets smaller: tables, hosts, keys, lists, counts, times.

The reductions read the plain data, not a list of the language's features: every list of tables,
every key, every number and every duration is tried, whatever its name. ``language/spec.py:parse``
refuses a result that is no scenario, which costs no run. Only changes of several tables at once
know names: a topic, a partition or a host is removed together with everything that names it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from kafkasim.scenarios.language.files.data import PROPERTIES, Data
from kafkasim.scenarios.language.units import duration_text, duration_us
from kafkasim.scenarios.shrinking.reducing import whole
from kafkasim.scenarios.shrinking.reducing.ddmin import ddmin, least

Keeps = Callable[[Data], bool]
Path = tuple[str | int, ...]
Reduction = Callable[[Data, Keeps], Data]

FIXED = ("name", "claim", "variants", "watched", "permits", "within", "mode", "kind")
"""Keys that say what is tested, or what a candidate's time to converge is."""

SHORTEST_US = 1000
"""Durations are not halved below a millisecond."""


def at(data: Any, path: Path) -> Any:
    """Return the value at a path of keys and indices."""
    for part in path:
        data = data[part]
    return data


def changed(data: Any, path: Path, value: Any) -> Any:
    """Return a copy of the data with another value at a path; the rest is shared."""
    if not path:
        return value
    head, *rest = path
    copy = dict(data) if isinstance(data, Mapping) else list(data)
    copy[head] = changed(data[head], tuple(rest), value)  # type: ignore[index]
    return copy


def paths(data: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every value and its path, tables and lists before what is in them."""
    yield path, data
    inner: Any = ()
    if isinstance(data, Mapping):
        inner = data.items()
    elif isinstance(data, list):
        inner = enumerate(data)
    for key, value in inner:
        yield from paths(value, (*path, key))


def _places(data: Data, wanted: Callable[[Path, Any], bool]) -> list[Path]:
    """Return the paths of the values that a reduction may change."""
    return [
        path
        for path, value in paths(data)
        if path and not any(part in FIXED for part in path) and wanted(path, value)
    ]


def _still(data: Data, path: Path) -> bool:
    """Return whether the data still have a path, after earlier reductions."""
    try:
        at(data, path)
    except (KeyError, IndexError, TypeError):
        return False
    return True


# ------------------------------------------------------------------------------ the reductions


def tables(data: Data, keeps: Keeps) -> Data:
    """Take out tables of every list of tables: faults, operations, workloads, topics…"""
    lists = [key for key, value in data.items() if _is_tables(value)]
    for key in sorted(lists, key=lambda key: -len(data[key])):
        if key in data:
            data = _fewer_tables(data, key, keeps)
    return data


def _fewer_tables(data: Data, key: str, keeps: Keeps) -> Data:
    def candidate(kept: list[Any]) -> Data:
        made = {**data, key: kept} if kept else {k: v for k, v in data.items() if k != key}
        if key == "topics":
            gone = [topic["name"] for topic in data[key] if topic not in kept]
            made = whole.without_topics(made, gone)
        return made

    return candidate(ddmin(data[key], lambda kept: keeps(candidate(kept))))


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], Mapping)


def parts(data: Data, keeps: Keeps) -> Data:
    """Take out partitions and hosts, with all that names them, the last ones first."""
    for take_out in (whole.without_partition, whole.without_host):
        tried = True
        while tried:
            tried = False
            for candidate in take_out(data):
                if keeps(candidate):
                    data, tried = candidate, True
                    break
    return data


def keys(data: Data, keeps: Keeps) -> Data:
    """Take out keys, so that defaults hold: all of a table at once, then half of them…"""
    for path in [path for path, value in paths(data) if isinstance(value, Mapping)]:
        if _still(data, path) and not any(part in FIXED for part in path):
            data = _fewer_keys(data, path, keeps)
    return data


def _fewer_keys(data: Data, path: Path, keeps: Keeps) -> Data:
    table = at(data, path)

    def candidate(kept: list[str]) -> Data:
        rest = {key: table[key] for key in table if key in FIXED or key in kept}
        made: Data = changed(data, path, rest)
        return made

    free = [key for key in table if key not in FIXED]
    return candidate(ddmin(free, lambda kept: keeps(candidate(kept))))


def lists(data: Data, keeps: Keeps) -> Data:
    """Take items out of lists of names: peers, racks, kinds."""
    for path in _places(data, lambda _, value: isinstance(value, list) and not _is_tables(value)):
        if _still(data, path):
            data = _fewer_items(data, path, keeps)
    return data


def _fewer_items(data: Data, path: Path, keeps: Keeps) -> Data:
    items = ddmin(at(data, path), lambda kept: keeps(changed(data, path, kept)))
    made: Data = changed(data, path, items)
    return made


def counts(data: Data, keeps: Keeps) -> Data:
    """Lower whole numbers: brokers, replicas, clients, repetitions; not Kafka's properties."""

    def countable(path: Path, value: Any) -> bool:
        named = isinstance(path[-1], str) and not any(part in PROPERTIES for part in path)
        return named and isinstance(value, int) and not isinstance(value, bool) and value > 1

    for path in _places(data, countable):
        data = _fewer_of(data, path, keeps)
    return data


def _fewer_of(data: Data, path: Path, keeps: Keeps) -> Data:
    number = least(at(data, path), 1, lambda n: keeps(changed(data, path, n)))
    made: Data = changed(data, path, number)
    return made


def earlier(data: Data, keeps: Keeps) -> Data:
    """Move all faults, operations and clients to an earlier time, together."""
    times = [p for p in _places(data, _is_duration) if p[-1] in ("at", "start", "stop")]
    plain = [path for path in times if "when" not in at(data, path[:-1])]
    while plain:
        first = min(duration_us(at(data, path)) for path in plain)
        candidate = data
        for path in plain:
            candidate = changed(
                candidate, path, duration_text(duration_us(at(data, path)) - first // 2)
            )
        if first < 2 * SHORTEST_US or not keeps(candidate):
            break
        data = candidate
    return data


def _is_duration(path: Path, value: Any) -> bool:
    if any(part in PROPERTIES for part in path) or not isinstance(value, str):
        return False
    try:
        return duration_us(value) >= 0
    except ValueError:
        return False


def durations(data: Data, keeps: Keeps) -> Data:
    """Halve durations and times while that is possible, then round them."""
    for path in _places(data, _is_duration):
        while (us := duration_us(at(data, path))) >= 2 * SHORTEST_US:
            candidate = changed(data, path, duration_text(us // 2))
            if not keeps(candidate):
                break
            data = candidate
        for digits in (1, 2):
            rounded = changed(
                data, path, duration_text(_rounded(duration_us(at(data, path)), digits))
            )
            if rounded == data or keeps(rounded):
                data = rounded
                break
    return data


def _rounded(us: int, digits: int) -> int:
    step = int(f"1{'0' * max(0, len(str(us)) - digits)}")
    return (us + step // 2) // step * step


def rates(data: Data, keeps: Keeps) -> Data:
    """Halve the rates of producers."""

    def is_rate(path: Path, value: Any) -> bool:
        return path[-1] == "rate" and isinstance(value, str)

    for path in _places(data, is_rate):
        number, _, unit = at(data, path).partition("/")
        while float(number) >= 2:
            number = str(int(float(number) / 2))
            candidate = changed(data, path, f"{number}/{unit}")
            if not keeps(candidate):
                break
            data = candidate
    return data


ALL: Mapping[str, Reduction] = {
    "tables": tables,
    "durations": durations,
    "parts": parts,
    "keys": keys,
    "lists": lists,
    "counts": counts,
    "times": earlier,
    "rates": rates,
}
"""The reductions in the order in which they are tried, again and again until none helps."""
