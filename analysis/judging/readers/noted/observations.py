"""Observations about groups that fall behind, and about coordinators that load for long.

See ``language/vocabulary.py:OBSERVATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

LAGGING = 200
"""How many records behind the high watermark a group lags."""

LONG_LOAD_US = 1_000_000
"""From this time on between its election and its service a coordinator's load counts as long."""

COORDINATED = {"__consumer_offsets": "groups", "__transaction_state": "transactions"}


class LoadObserver:
    """Tells ``note(observation, µs)`` of coordinators that took long to load their partition."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._note = note
        self._topics: dict[str, str] = {}  # topic id -> what its leaders coordinate
        self._elected: dict[tuple[str, str, int, int], int] = {}  # µs
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.CoordinatorLoaded, self._on_groups)
        trace.subscribe(facts.TransactionsLoaded, self._on_transactions)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic in COORDINATED:
            self._topics[fact.topic_id] = COORDINATED[fact.topic]

    def _on_leader(self, _seq: int, t_us: int, node: str, fact: facts.BecameLeader) -> None:
        kind = self._topics.get(fact.topic_id)
        if kind is not None:
            self._elected[node, kind, fact.partition, fact.leader_epoch] = t_us

    def _on_groups(self, _s: int, t_us: int, node: str, fact: facts.CoordinatorLoaded) -> None:
        self._loaded(t_us, (node, "groups", fact.partition, fact.leader_epoch), fact.loaded)

    def _on_transactions(
        self, _seq: int, t_us: int, node: str, fact: facts.TransactionsLoaded
    ) -> None:
        self._loaded(t_us, (node, "transactions", fact.partition, fact.leader_epoch), fact.loaded)

    def _loaded(self, t_us: int, place: tuple[str, str, int, int], loaded: bool) -> None:
        since = self._elected.pop(place, t_us)
        if loaded and t_us - since >= LONG_LOAD_US:
            self._note(f"long-load:{place[1]}", t_us)


class LagObserver:
    """Tells ``note(observation, µs)`` what a run shows of lag.

    A group has caught up with the leader's high watermark of that moment, not with the one that it
    knows. These are many facts, so they are followed from the first lag on.
    """

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._note = note
        self._trace = trace
        self._lagging: dict[tuple[str, PartitionKey], None] = {}
        self._high_watermarks: dict[PartitionKey, int] = {}
        trace.subscribe(facts.Polled, self._on_polled)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        behind = fact.high_watermark - fact.position >= LAGGING
        if not behind and not self._lagging:
            return
        key = (fact.topic_id, fact.partition)
        place = (fact.group, key)
        if behind:
            if not self._high_watermarks:
                self._trace.subscribe(facts.HighWatermark, self._on_high_watermark)
            self._high_watermarks.setdefault(key, fact.high_watermark)
            self._lagging[place] = None
            self._note("lagging", t_us)
        elif place in self._lagging and fact.position >= self._high_watermarks[key]:
            del self._lagging[place]
            self._note("caught-up", t_us)

    def _on_high_watermark(self, _s: int, _t: int, _n: str, fact: facts.HighWatermark) -> None:
        self._high_watermarks[fact.topic_id, fact.partition] = fact.high_watermark
