"""The Wilson interval of a rate: five lines, where importing scipy for it takes a CPU second."""

from __future__ import annotations

from math import sqrt
from statistics import NormalDist

Z = NormalDist().inv_cdf(0.975)
"""Of a two-sided interval of 95 %."""


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the Wilson 95 % interval of a rate of ``hits`` in ``total`` (Wilson 1927)."""
    assert 0 <= hits <= total, f"{hits} of {total}"
    if total == 0:
        return 0.0, 1.0
    rate, weight = hits / total, 1 + Z**2 / total
    middle = (rate + Z**2 / (2 * total)) / weight
    half = Z / weight * sqrt(rate * (1 - rate) / total + Z**2 / (4 * total**2))
    return 0.0 if hits == 0 else middle - half, 1.0 if hits == total else middle + half
