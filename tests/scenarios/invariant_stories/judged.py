"""What the invariants find in facts that are written by hand."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.invariants.online import Invariants
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.source import BrokerLimits
from tests.scenarios.fact_makers import FakeTrace, Row

LIMITS = BrokerLimits(retention_us=60_000_000)


def judged(
    rows: Sequence[Row],
    excuse: Callable[[tuple[str, int], str], str] = lambda _key, _node: "",
    *,
    unclean: bool = True,
    limits: BrokerLimits = LIMITS,
) -> Invariants:
    """Return the invariants after some facts; ``excuse`` stands for the no-loss budget."""
    trace = FakeTrace()
    history = History(trace, lambda _topic: unclean, excuse)
    invariants = Invariants(trace, history, Settings(limits=limits))
    trace.record(rows)
    return invariants


def judge(
    rows: Sequence[Row], forgiven: str = "", *, unclean: bool = True
) -> list[tuple[str, str]]:
    """Return (invariant, excuse) of the violations that the facts show."""
    invariants = judged(rows, lambda _key, _node: forgiven, unclean=unclean)
    return [(each.name, each.expected_by) for each in invariants.finish()]
