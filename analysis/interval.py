"""The Wilson interval of a rate, by scipy, which is loaded only when it is asked for one."""

from __future__ import annotations


def wilson(hits: int, total: int) -> tuple[float, float]:
    """Return the Wilson 95 % interval of a rate of ``hits`` in ``total``."""
    from scipy.stats import binomtest

    assert 0 <= hits <= total, f"{hits} of {total}"
    if total == 0:
        return 0.0, 1.0
    interval = binomtest(hits, total).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)
