"""What the invariants find in facts that are written by hand."""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.analysis.judging.harm.judges import HARM
from kafkasim.analysis.judging.invariants.online import Invariants
from kafkasim.analysis.judging.source import BrokerLimits
from tests.scenarios.fact_makers import FakeLog, FakeTrace, Row
from tests.scenarios.invariant_stories.common import (
    COMMITS,
    DELETED,
    LOG,
    OTHER_COMMITS,
    SEQUENCED,
    TRANSACTIONS,
    TWICE,
    entry,
)

LIMITS = BrokerLimits(5_000_000, 3_000_000, 60_000_000)

LOGS = {
    "broker-2": LOG,
    "broker-3": TWICE,
    "broker-5": FakeLog(SEQUENCED, {5: entry(1)}),
    "broker-6": FakeLog(SEQUENCED, {5: entry(0)}),
    "broker-7": FakeLog(TRANSACTIONS, {5: entry(1, open_since=2)}),
    "broker-8": FakeLog(TRANSACTIONS, {5: entry(1, open_since=0)}),
    "broker-9": COMMITS,
    "broker-10": OTHER_COMMITS,
    "broker-11": DELETED,
}


def judge(
    rows: Sequence[Row], forgiven: str = "", *, unclean: bool = True
) -> list[tuple[str, str]]:
    """Return (invariant, excuse) of the violations that the facts show.

    Needless harm of brokers is left out: these stories tell no heartbeats.
    """
    trace = FakeTrace()
    invariants = Invariants(
        trace,
        lambda node, _t, _p: LOGS.get(node),
        lambda _key, _node: forgiven,
        lambda _: unclean,
        LIMITS,
    )
    trace.record(rows)
    found = [each for each in invariants.finish() if each.name not in HARM]
    return [(each.name, each.expected_by) for each in found]
