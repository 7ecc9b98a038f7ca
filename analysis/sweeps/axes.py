"""The axes of a sweep and the points between them: a full grid, Latin hypercube or Sobol.

An axis has *levels*: settings that go together, under one name. ``KEY=V1,V2,V3`` is an axis with
a level for each value. ``KEY=LOW..HIGH`` is a range without levels; it needs a sample, which draws
as many points as it is told from all axes at once (``scipy.stats.qmc``). The sample has a seed of
its own, so the same command has the same points.
"""

from __future__ import annotations

import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

SAMPLERS = ("lhs", "sobol")
MOST_POINTS = 4096
"""More points are a slip of the hand: with one run each they take an hour."""

_VALUE = re.compile(r"([0-9]+(?:\.[0-9]+)?)([A-Za-z/µ]*)", re.ASCII)


class SweepError(ValueError):
    """A sweep cannot be understood; the message is one line that says what is allowed."""


class LevelTable(Protocol):
    """A level as a scenario's ``[sweep]`` table has it."""

    @property
    def name(self) -> str: ...
    @property
    def set(self) -> Mapping[str, Any]: ...


class AxisTable(Protocol):
    """An axis as a scenario's ``[sweep]`` table has it."""

    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    @property
    def values(self) -> Sequence[Any]: ...
    @property
    def range(self) -> Sequence[Any]: ...
    @property
    def levels(self) -> Sequence[LevelTable]: ...


@dataclass(frozen=True)
class Level:
    """One value of an axis: how it is called, and the settings (``KEY=VALUE``) that make it."""

    name: str
    settings: tuple[str, ...]


BYTES = ("batch.size", "buffer.memory", "max.request.size", "value-size")
"""Keys that count bytes and do not say so."""


@dataclass(frozen=True)
class Axis:
    """What a sweep changes: levels, or the bounds of a range (``unit`` as in ``"2s"``)."""

    name: str
    levels: tuple[Level, ...] = ()
    key: str = ""
    low: float = 0.0
    high: float = 0.0
    unit: str = ""

    @property
    def title(self) -> str:
        """The name with the unit of its values, if neither the name nor the values tell it."""
        unit = self.unit or ("bytes" if self.name.endswith(BYTES) else "")
        return f"{self.name} ({unit})" if unit else self.name

    @property
    def is_range(self) -> bool:
        """Whether only a sample can choose values."""
        return not self.levels

    def at(self, share: float) -> Level:
        """Return the level at a share (0 to 1) of the axis; ranges of counts are rounded.

        A range whose ends lie a factor of ten or more apart is divided evenly in the logarithm.
        """
        if self.levels:
            return self.levels[min(int(share * len(self.levels)), len(self.levels) - 1)]
        if self.low > 0 and self.high / self.low >= 10:
            number = self.low * (self.high / self.low) ** share
        else:
            number = self.low + (self.high - self.low) * share
        whole = not self.unit and self.low.is_integer() and self.high.is_integer()
        text = f"{round(number)}" if whole else f"{number:.3f}".rstrip("0").rstrip(".")
        text += self.unit
        return Level(text, (f"{self.key}={text}",))


@dataclass(frozen=True)
class Point:
    """One configuration of a sweep: a level of each axis, in the order of the axes."""

    levels: tuple[Level, ...]

    @property
    def settings(self) -> tuple[str, ...]:
        """What is set at this point, ``KEY=VALUE``."""
        return tuple(setting for level in self.levels for setting in level.settings)

    def label(self, axes: Sequence[Axis]) -> str:
        """Return the point's name: ``pause=8s,lag=3000``."""
        pairs = zip(axes, self.levels, strict=True)
        return ",".join(f"{axis.name}={level.name}" for axis, level in pairs)


@dataclass(frozen=True)
class Sample:
    """How many points are drawn, and how: ``lhs`` or ``sobol``."""

    kind: str
    points: int


def parse_axis(text: str) -> Axis:
    """Return the axis that ``KEY=V1,V2,V3`` or ``KEY=LOW..HIGH`` describes.

    A value that has commas itself is written in quotes or brackets, as TOML does.

    Raises:
        SweepError: it is neither.
    """
    key, equals, values = text.partition("=")
    key, values = key.strip(), values.strip()
    if not equals or not key or not values:
        raise SweepError(f"--grid {text!r}: give KEY=V1,V2,V3 or KEY=LOW..HIGH")
    low, dots, high = values.partition("..")
    if dots:
        return _range(key, low.strip(), high.strip(), f"--grid {text!r}")
    found = [value.strip() for value in _split(values)]
    if "" in found or len(set(found)) < len(found):
        raise SweepError(f"--grid {text!r}: give each value once, and no empty one")
    levels = tuple(Level(_bare(value), (f"{key}={value}",)) for value in found)
    return Axis(_short(key), levels, key)


def axis_of(table: AxisTable) -> Axis:
    """Return the axis that a ``[[sweep.axes]]`` table describes.

    Raises:
        SweepError: it has neither values, range nor levels, or several of them.
    """
    place = f"sweep.axes: {table.name or table.key!r}"
    given = [bool(table.values), bool(table.range), bool(table.levels)]
    if given.count(True) != 1:
        raise SweepError(f"{place}: give one of values, range, levels")
    if not table.levels and not table.key:
        raise SweepError(f"{place}: values and range need a key")
    if table.levels:
        levels = tuple(
            Level(level.name, tuple(_setting(key, value) for key, value in level.set.items()))
            for level in table.levels
        )
        return Axis(table.name or table.key, levels)
    name = table.name or _short(table.key)
    if table.range:
        low, high = (str(end) for end in table.range)
        found = _range(table.key, low, high, place)
        return Axis(name, (), found.key, found.low, found.high, found.unit)
    levels = tuple(Level(_named(value), (_setting(table.key, value),)) for value in table.values)
    return Axis(name, levels, table.key)


def axes_of(declared: Sequence[AxisTable], grids: Sequence[str]) -> list[Axis]:
    """Return the axes of a command: those that it names, else those of the scenario's table.

    Raises:
        SweepError: there are none, or two have one name.
    """
    axes = [parse_axis(text) for text in grids]
    if not axes:
        axes = [axis_of(one) for one in declared]
    if not axes:
        raise SweepError("nothing to vary: give --grid KEY=V1,V2,V3, or a [sweep] table")
    names = [axis.name for axis in axes]
    if len(set(names)) < len(names):
        axes = [_renamed(axis) if names.count(axis.name) > 1 else axis for axis in axes]
    if len({axis.name for axis in axes}) < len(axes):
        raise SweepError(f"two axes are called {axes[0].name!r}")
    return axes


def parse_sample(text: str) -> Sample:
    """Return the sample that ``lhs:N`` or ``sobol:N`` describes.

    Raises:
        SweepError: it is neither, or N is no number of points.
    """
    kind, _, count = text.partition(":")
    if kind not in SAMPLERS or not count.isdecimal() or not 1 <= int(count) <= MOST_POINTS:
        raise SweepError(f"--sample {text!r}: give lhs:N or sobol:N, N from 1 to {MOST_POINTS}")
    return Sample(kind, int(count))


def points(axes: Sequence[Axis], sample: Sample | None = None) -> list[Point]:
    """Return the points of a sweep: all combinations of levels, or a sample's, each once.

    Raises:
        SweepError: a range without a sample, or too many points.
    """
    if sample is not None:
        return _sampled(axes, sample)
    for axis in axes:
        if axis.is_range:
            raise SweepError(
                f"{axis.key}={axis.low:g}{axis.unit}..{axis.high:g}{axis.unit}: a range needs"
                " --sample lhs:N or --sample sobol:N; or give values"
            )
    count = math.prod(len(axis.levels) for axis in axes)
    if count > MOST_POINTS:
        raise SweepError(f"the grid has {count} points, at most {MOST_POINTS}: sample it")
    return [Point(levels) for levels in itertools.product(*(axis.levels for axis in axes))]


def _sampled(axes: Sequence[Axis], sample: Sample) -> list[Point]:
    from scipy.stats import qmc

    engine = {"lhs": qmc.LatinHypercube, "sobol": qmc.Sobol}[sample.kind](len(axes), seed=0)
    if sample.kind == "sobol":  # its balance holds for powers of two only
        drawn = engine.random_base2(math.ceil(math.log2(sample.points)))[: sample.points]
    else:
        drawn = engine.random(sample.points)
    found = [
        Point(tuple(axis.at(float(share)) for axis, share in zip(axes, row, strict=True)))
        for row in drawn
    ]
    return list(dict.fromkeys(found))


def _range(key: str, low: str, high: str, place: str) -> Axis:
    ends = [_VALUE.fullmatch(low), _VALUE.fullmatch(high)]
    if ends[0] is None or ends[1] is None or ends[0][2] != ends[1][2]:
        raise SweepError(f'{place}: a range has two numbers of one unit, as in "2s..12s"')
    first, last = float(ends[0][1]), float(ends[1][1])
    if first >= last:
        raise SweepError(f"{place}: {low} is not below {high}")
    return Axis(_short(key), (), key, first, last, ends[0][2])


def _split(values: str) -> list[str]:
    """Split at commas outside of quotes, brackets and braces."""
    parts, depth, quote = [""], 0, ""
    for letter in values:
        if letter == quote:
            quote = ""
        elif not quote and letter in "\"'":
            quote = letter
        elif not quote:
            depth += (letter in "[{") - (letter in "]}")
        if letter == "," and depth == 0 and not quote:
            parts.append("")
        else:
            parts[-1] += letter
    return parts


def _setting(key: str, value: Any) -> str:
    return f"{key}={json.dumps(value, ensure_ascii=False)}"


def _named(value: Any) -> str:
    if isinstance(value, Mapping | list):
        return json.dumps(value, ensure_ascii=False)
    return str(value).lower() if isinstance(value, bool) else str(value)


def _bare(value: str) -> str:
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else value


def _short(key: str) -> str:
    """Return what an axis is called: a property by its own name, a table's key by its path."""
    _, found, name = key.rpartition("config.")
    return name if found else key


def _renamed(axis: Axis) -> Axis:
    return Axis(axis.key or axis.name, axis.levels, axis.key, axis.low, axis.high, axis.unit)
