"""Delta debugging: a smallest list that still shows something.

After Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), with
complements only: what stays is a list from which no single item can be taken.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

Item = TypeVar("Item")


def ddmin(items: Sequence[Item], keeps: Callable[[list[Item]], bool]) -> list[Item]:
    """Return a part of ``items``, in their order, for which ``keeps`` holds.

    ``keeps`` holds for all of the items. It is asked for smaller and smaller parts: none of them,
    then without one half, without a quarter, … without each one.
    """
    rest = list(items)
    if rest and keeps([]):
        return []
    size = (len(rest) + 1) // 2
    while rest and size:
        taken, start = False, 0
        while start < len(rest):
            fewer = rest[:start] + rest[start + size :]
            if fewer and keeps(fewer):
                rest, taken = fewer, True
            else:
                start += size
        if size == 1 and not taken:
            break
        size = max(1, size // 2)
    return rest


def least(high: int, low: int, keeps: Callable[[int], bool]) -> int:
    """Return a small number from ``low`` to ``high`` for which ``keeps`` holds, by halving.

    ``keeps`` holds for ``high``. It need not hold for all numbers above one for which it does, so
    what is returned is a number that cannot be lowered by half of its distance to ``low``, nor by
    a quarter, … nor by one.
    """
    if high <= low:
        return high
    if keeps(low):
        return low
    while True:
        step = (high - low) // 2
        while step and not keeps(high - step):
            step //= 2
        if not step:
            return high
        high -= step
