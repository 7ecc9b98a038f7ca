"""The nodes as all judges of harm know them: their time limits, and the speed of their clocks."""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

MILLION = 1_000_000
ROUNDING_US = 1000
"""How much less than its limit a wait may seem to last: a clock counts whole units."""


class Nodes:
    """The time limits and clocks of all nodes, as the trace tells them.

    A process measures a wait with its own monotonic clock, which a fault may let drift. So a judge
    compares a limit with the time that passed on the clock of the node that waited.
    """

    def __init__(self, trace: FactSource) -> None:
        self._limits: dict[tuple[str, str], int] = {}
        self._rates: dict[str, list[tuple[int, int]]] = {}  # node -> (since, drift in ppm)
        trace.subscribe(facts.TimeLimit, self._on_limit)
        trace.subscribe(facts.ClockDrifted, self._on_drift)

    def limit_us(self, node: str, config: str) -> int | None:
        """Return a time limit that a node was started with last, None if it told none."""
        return self._limits.get((node, config))

    def elapsed_us(self, node: str, since: int, until: int) -> int:
        """Return how much time passed on a node's clock between two simulated times, in µs."""
        rates = self._rates.get(node)
        if rates is None:
            return until - since
        total, end = until - since, until
        for start, drift in reversed(rates):
            if start < end and drift:
                begin = max(start, since)
                total += (end - begin) * drift // MILLION
            end = min(end, start)
            if end <= since:
                break
        return total

    def _on_limit(self, _seq: int, _t: int, node: str, fact: facts.TimeLimit) -> None:
        self._limits[(node, fact.config)] = fact.limit_us

    def _on_drift(self, _seq: int, t: int, node: str, fact: facts.ClockDrifted) -> None:
        self._rates.setdefault(node, []).append((t, fact.drift_ppm))
