"""Durations, rates and sizes as people write them: ``"250ms"``, ``"200/s"``, ``"16KiB"``.

Where a scenario allows a range (``["5s", "6.5s"]``), the value is a :class:`Span` and each seed
draws its own.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from kafkasim.sim.faults.kinds import EVER_US

MICROSECONDS = {"us": 1, "µs": 1, "ms": 1_000, "s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000}
BYTES = {"B": 1, "KiB": 1024, "MiB": 1024**2, "GiB": 1024**3}
BANDWIDTHS = {"Mbit/s": 1, "Gbit/s": 1000}
LONGEST_US = 10 * 365 * 24 * 3_600_000_000
"""The longest duration: ten years. Sums of them stay within the 64 bits of a trace's times."""

LARGEST_BYTES = 2**31 - 1
"""The largest size of a record; Kafka counts its bytes in 32 bits."""

HIGHEST_RATE, LOWEST_RATE = 1e6, 1e-9
"""Events a second: one in a microsecond, the step of simulated time, and one in thirty years."""

_NUMBER = re.compile(r"^\s*([0-9]+(?:\.[0-9]+)?)\s*(\S+)\s*$", re.ASCII)


def duration_us(text: Any) -> int:
    """Parse ``"20s"`` into microseconds.

    Raises:
        ValueError: not a number with one of the units us, ms, s, m, h, or longer than ten years.
    """
    return _scaled(text, MICROSECONDS, LONGEST_US, 'a duration such as "250ms", "20s" or "5m"')


def offset_us(text: Any) -> int:
    """Parse ``"20s"`` or ``"-20s"`` into microseconds.

    Raises:
        ValueError: not a duration with or without a minus sign.
    """
    if isinstance(text, str) and text.startswith("-"):
        return -duration_us(text[1:])
    return duration_us(text)


def duration_text(us: int) -> str:
    """Return a duration as people write it, which parses to the same: ``"1.25s"``, ``"40ms"``."""
    sign, us = ("-", -us) if us < 0 else ("", us)
    unit = next((unit for unit in ("s", "ms") if us >= MICROSECONDS[unit]), "us" if us else "s")
    return f"{sign}{Decimal(us) / MICROSECONDS[unit]:f}{unit}"


def size_bytes(text: Any) -> int:
    """Parse ``"16KiB"`` or a plain number of bytes.

    Raises:
        ValueError: neither, or more than ``LARGEST_BYTES``.
    """
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        text = f"{text}B"
    return _scaled(text, BYTES, LARGEST_BYTES, 'a size such as 100, "16KiB" or "1MiB"')


def per_second(text: Any) -> float:
    """Parse ``"200/s"`` or ``"30/m"`` into events a second; 0 is not allowed.

    Raises:
        ValueError: not a number with ``/s``, ``/m`` or ``/h``, or one that is too high or too low.
    """
    match = re.match(
        r"^\s*([0-9]+(?:\.[0-9]+)?)\s*/\s*(s|m|h)\s*$", text if isinstance(text, str) else ""
    )
    if match is None or float(match[1]) <= 0:
        raise ValueError(f'{text!r} is not a rate such as "200/s" or "30/m"')
    rate = float(match[1]) / {"s": 1, "m": 60, "h": 3600}[match[2]]
    if not LOWEST_RATE <= rate <= HIGHEST_RATE:
        raise ValueError(f"{text!r} is out of range; allowed: {LOWEST_RATE}/s to {HIGHEST_RATE}/s")
    return rate


def bytes_per_us(text: Any) -> int:
    """Parse the bandwidth of a link, ``"100Mbit/s"`` or ``"1Gbit/s"``, into bytes a microsecond.

    Raises:
        ValueError: neither, or out of range.
    """
    mbit = _scaled(text, BANDWIDTHS, 10**6, 'a bandwidth such as "100Mbit/s" or "1Gbit/s"')
    if mbit < 8:
        raise ValueError(f"{text!r} is too little; allowed: 8Mbit/s to 1000Gbit/s")
    return mbit // 8


def _scaled(text: Any, units: dict[str, int], most: int, wanted: str) -> int:
    match = _NUMBER.match(text) if isinstance(text, str) else None
    if match is None or match[2] not in units:
        raise ValueError(f"{text!r} is not {wanted}")
    scaled = float(match[1]) * units[match[2]]
    if scaled > most:
        raise ValueError(f"{text[:40]!r} is too much; allowed: {most // units[match[2]]}{match[2]}")
    return round(scaled)


@dataclass(frozen=True)
class Span:
    """A duration, or a range of durations of which each seed draws one. In microseconds."""

    low: int
    high: int

    def draw(self, rng: random.Random) -> int:
        """Return the duration of this seed."""
        if self.low == self.high:
            return self.low
        return self.low + int(rng.random() * (self.high - self.low + 1))


EVER = Span(EVER_US, EVER_US)
"""How long a fault lasts that nobody ends."""


def span(value: Any) -> Span:
    """Parse ``"6s"`` or ``["5s", "6.5s"]``."""
    if isinstance(value, Span):
        return value
    if isinstance(value, list | tuple):
        if len(value) != 2:
            raise ValueError(f"{value!r} is not a range: give [lowest, highest]")
        low, high = duration_us(value[0]), duration_us(value[1])
        if low > high:
            raise ValueError(f"{value!r} is not a range: {value[0]} is above {value[1]}")
        return Span(low, high)
    fixed = duration_us(value)
    return Span(fixed, fixed)


def lasting(value: Any) -> Span:
    """Parse a duration or a range as :func:`span` does, or ``"ever"``."""
    return EVER if value == "ever" else span(value)


def _span_text(value: Span) -> str | list[str]:
    if value == EVER:
        return "ever"
    low, high = f"{value.low}us", f"{value.high}us"
    return low if low == high else [low, high]


def _rate_text(value: float) -> str:
    return f"{Decimal(value):f}/s"  # exact, and never with an exponent


# What is written into a manifest is read back by the same rules: with its unit.
Duration = Annotated[
    int,
    BeforeValidator(duration_us),
    PlainSerializer(lambda us: f"{us}us", return_type=str, when_used="json"),
]
Offset = Annotated[
    int,
    BeforeValidator(offset_us),
    PlainSerializer(lambda us: f"{us}us", return_type=str, when_used="json"),
]
DurationSpan = Annotated[Span, BeforeValidator(span), PlainSerializer(_span_text, when_used="json")]
LastingSpan = Annotated[
    Span, BeforeValidator(lasting), PlainSerializer(_span_text, when_used="json")
]
Rate = Annotated[
    float,
    BeforeValidator(per_second),
    PlainSerializer(_rate_text, return_type=str, when_used="json"),
]
Size = Annotated[int, BeforeValidator(size_bytes)]
Bandwidth = Annotated[
    int,
    BeforeValidator(bytes_per_us),
    PlainSerializer(lambda rate: f"{8 * rate}Mbit/s", return_type=str, when_used="json"),
]
