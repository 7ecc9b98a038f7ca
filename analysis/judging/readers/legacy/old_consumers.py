"""Observations about groups of old consumers, which live in ZooKeeper.

See ``language/vocabulary.py:OBSERVATIONS``.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts


class OldConsumerObserver:
    """Tells ``note(observation, µs)`` of conflicts, failed rebalances and zombies."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._trace = trace
        self._note = note
        self._topics: dict[str, str] = {}  # id -> name
        self._owner: dict[tuple[str, str, int], str] = {}  # the last to claim a partition
        self._generation: dict[str, int] = {}  # group -> the highest
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionOwner, self._on_owner)
        trace.subscribe(facts.RebalanceAttempt, self._on_attempt)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_owner(self, _seq: int, t_us: int, _node: str, fact: facts.PartitionOwner) -> None:
        if not self._owner:
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._trace.subscribe(facts.Rebalanced, self._on_rebalanced)
        if fact.event == "claimed":
            self._owner[fact.group, fact.topic, fact.partition] = fact.member_id
        elif fact.event == "conflict":
            self._note("owner-conflict", t_us)

    def _on_attempt(self, _seq: int, t_us: int, _node: str, fact: facts.RebalanceAttempt) -> None:
        if fact.outcome == "gave-up":
            self._note("rebalance-given-up", t_us)

    def _on_rebalanced(self, _seq: int, t_us: int, _node: str, fact: facts.Rebalanced) -> None:
        known = self._generation.get(fact.group)
        if known is not None and fact.generation > known:
            self._note("rebalance", t_us)
        self._generation[fact.group] = max(known or 0, fact.generation)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        place = (fact.group, self._topics.get(fact.topic_id, ""), fact.partition)
        if fact.offsets and self._owner.get(place, fact.member_id) != fact.member_id:
            self._note("zombie-poll", t_us)
