"""Results that groups keep outside of Kafka: does each record have exactly one?

The databases of a group's members are read when the run ends (the fact FinalResults). A member
handles a partition in the order of its offsets, so a record without a result is lost if a later one
of its partition has a result, or if the group has committed past it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from kafkasim.model import facts
from kafkasim.scenarios.judging.delivery import Anomaly
from kafkasim.scenarios.judging.source import FactSource, PartitionKey
from kafkasim.scenarios.judging.transactions.holes import Holes


class StoredResults:
    """Follows one run; :meth:`finish` returns an anomaly for each partition and group.

    ``legal_loss()`` says why the brokers may have lost records or offsets in this run, or "".
    """

    def __init__(self, trace: FactSource, holes: Holes, legal_loss: Callable[[], str]) -> None:
        self._holes = holes
        self._legal_loss = legal_loss
        self._stored: dict[tuple[str, PartitionKey], Counter[int]] = {}
        self._first: dict[tuple[str, PartitionKey], int] = {}  # where a group began
        self._committed: dict[tuple[str, str, int], int] = {}  # the highest offset
        self._topics: dict[str, str] = {}  # topic id -> name
        self._start: dict[PartitionKey, int] = {}  # the highest log start at the end
        trace.subscribe(facts.FinalResults, self._on_results)
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.FinalReplica, self._on_replica)

    def _on_results(self, _seq: int, _t: int, _node: str, fact: facts.FinalResults) -> None:
        place = (fact.group, (fact.topic_id, fact.partition))
        self._stored.setdefault(place, Counter()).update(fact.offsets)

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason != "none":
            place = (fact.group, (fact.topic_id, fact.partition))
            self._first[place] = min(fact.offset, self._first.get(place, fact.offset))

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        name = (fact.group, fact.topic, fact.partition)
        self._committed[name] = max(fact.offset, self._committed.get(name, 0))

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_replica(self, _seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        if fact.leading:
            key = (fact.topic_id, fact.partition)
            self._start[key] = max(fact.log_start_offset, self._start.get(key, 0))

    def finish(self) -> list[Anomaly]:
        """Return the anomalies of the run, sorted by partition and group."""
        found = []
        excuse = self._legal_loss() if self._stored else ""
        for (group, key), stored in sorted(self._stored.items(), key=lambda each: each[0][::-1]):
            twice = sorted(offset for offset, times in stored.items() if times > 1)
            if twice:
                detail = f"group {group} stored {stored[twice[0]]} results of offset {twice[0]}"
                found.append(_anomaly("duplicate-result", key, twice, detail, group, excuse))
            missing = self._missing(group, key, stored)
            if missing:
                detail = f"group {group} stored no result of offset {missing[0]}"
                found.append(_anomaly("lost-result", key, missing, detail, group, excuse))
        return found

    def _missing(self, group: str, key: PartitionKey, stored: Counter[int]) -> list[int]:
        committed = self._committed.get((group, self._topics.get(key[0], key[0]), key[1]), 0)
        end = max(committed, max(stored, default=-1) + 1)
        start = max(self._first.get((group, key), end), self._start.get(key, 0))
        committed_only = self._holes.was_read_committed(group, key)
        return [
            offset
            for offset in range(start, end)
            if offset not in stored and self._holes.holds(key, offset, committed_only)
        ]


def _anomaly(
    name: str, key: PartitionKey, offsets: list[int], detail: str, group: str, excuse: str
) -> Anomaly:
    return Anomaly(name, *key, len(offsets), detail, excuse, offset=offsets[0], group=group)
