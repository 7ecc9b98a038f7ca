"""Record keys of a workload: none, uniform over N, or zipf over N with an exponent."""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate


def key_source(spec: str, rng: random.Random) -> Callable[[], str | None]:
    """Return the function that draws the next key of ``none``, ``uniform:N`` or ``zipf:N:S``."""
    kind, *arguments = spec.split(":")
    if kind == "none":
        return lambda: None
    names = [f"key-{index}" for index in range(int(arguments[0]))]
    if kind == "uniform":
        return lambda: names[int(rng.random() * len(names))]
    exponent = float(arguments[1])
    # Integer weights: a running sum of floats differs between Python versions.
    weights = list(accumulate(int(1e9 / (rank + 1) ** exponent) for rank in range(len(names))))
    return lambda: names[bisect_left(weights, int(rng.random() * weights[-1]) + 1)]
