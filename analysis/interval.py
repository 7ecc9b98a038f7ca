"""The Wilson interval of a rate. Standard library only, so the command line loads it fast."""

from __future__ import annotations

from math import sqrt

Z_95 = 1.959963984540054


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the Wilson 95 % interval of a rate of ``hits`` in ``total``."""
    assert 0 <= hits <= total, f"{hits} of {total}"
    if total == 0:
        return 0.0, 1.0
    rate = hits / total
    square = Z_95 * Z_95 / total
    middle = rate + square / 2
    spread = Z_95 * sqrt(rate * (1 - rate) / total + square / (4 * total))
    low = (middle - spread) / (1 + square)
    high = (middle + spread) / (1 + square)
    return (0.0 if hits == 0 else max(0.0, low)), (1.0 if hits == total else min(1.0, high))
