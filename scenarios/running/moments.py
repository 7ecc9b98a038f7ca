"""A moment of a stored run, as ``--at`` names it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.scenarios.language.units import duration_us


class MomentError(ValueError):
    """``--at`` names no moment of the run; the message is one line."""


def moment_us(text: str, manifest: Mapping[str, Any], last_us: int) -> int:
    """Return the trace time of ``--at``: ``20s``, ``20``, ``1m``, ``ready`` or ``end``.

    Raises:
        MomentError: it is none of these, or before the trace or behind its end.
    """
    ready_us = int(manifest.get("ready_us", 0))
    if text == "end":
        return last_us
    if text == "ready":
        return ready_us
    try:
        sign, bare = (-1, text[1:]) if text.startswith("-") else (1, text)
        number = bare.replace(".", "", 1).isdigit()
        at_us = ready_us + sign * duration_us(f"{bare}s" if number else bare)
    except ValueError:
        raise MomentError(
            f'--at {text!r} is not a time: give seconds after ready, "20s", "1m", ready or end'
        ) from None
    if not 0 <= at_us <= last_us:
        raise MomentError(
            f"--at {text}: the run lasts from {-ready_us / 1e6:.1f}s to"
            f" {(last_us - ready_us) / 1e6:.1f}s, counted from ready"
        )
    return at_us
