"""Results that groups keep outside of Kafka: one for each record, and counts that add up.

A legal loss explains what rested on it: the partition's records from the one concerned on, with the
markers that decide on them, or what the group had committed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterator

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.footing import Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Place = tuple[str, PartitionKey]
"""A group and a partition."""


class StoredResults:
    """lost-result, duplicate-result: the databases of a group have one result of each record.

    They are read when the run ends (the fact FinalResults). A member handles a partition in the
    order of its offsets, so a record without a result is lost if a later one of its partition has a
    result, or if the group has committed past it. A database knows a topic by its name, so results
    of a topic that was created again are not judged: they are of two logs.
    """

    def __init__(self, trace: FactSource, history: History) -> None:
        self._history = history
        self._stored: dict[Place, Counter[int]] = {}
        self._first: dict[Place, int] = {}  # where a group began
        self._committed: dict[tuple[str, str, int], int] = {}  # the highest offset
        follow(trace, self)

    def on_FinalResults(self, _seq: int, _t: int, _node: str, fact: facts.FinalResults) -> None:
        """Take what a database has."""
        place = (fact.group, (fact.topic_id, fact.partition))
        self._stored.setdefault(place, Counter()).update(fact.offsets)

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take where a group begins."""
        if fact.reason != "none":
            place = (fact.group, (fact.topic_id, fact.partition))
            self._first[place] = min(fact.offset, self._first.get(place, fact.offset))

    def on_OffsetCommitted(
        self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted
    ) -> None:
        """Take a commit."""
        name = (fact.group, fact.topic, fact.partition)
        self._committed[name] = max(fact.offset, self._committed.get(name, 0))

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        topics = self._history.topics
        names = Counter(created.topic for created in topics.values())
        found = []
        for place, stored in sorted(self._stored.items(), key=lambda each: each[0][::-1]):
            group, key = place
            name = topics[key[0]].topic if key[0] in topics else key[0]
            if names[name] > 1:
                continue
            for offset in sorted(each for each, times in stored.items() if times > 1):
                text = f"group {group} stored {stored[offset]} results of offset {offset}"
                found.append(self._finding("duplicate-result", place, offset, text))
            for offset in self._missing(place, name, stored):
                text = f"group {group} stored no result of offset {offset}"
                found.append(self._finding("lost-result", place, offset, text))
        return found

    def _missing(self, place: Place, name: str, stored: Counter[int]) -> Iterator[int]:
        group, key = place
        contents = self._history.contents
        committed = self._committed.get((group, name, key[1]), 0)
        end = max(committed, max(stored, default=-1) + 1)
        leader = contents.leaders.get(key)
        start = max(self._first.get(place, end), leader.log_start_offset if leader else 0)
        committed_only = contents.was_read_committed(group, key)
        for offset in range(start, end):
            if offset not in stored and contents.holds(key, offset, committed_only):
                yield offset

    def _finding(self, name: str, place: Place, offset: int, text: str) -> Finding:
        group, key = place
        footing = self._history.footing
        why = footing.lost([Spot(key, offset), footing.of_group(group)])
        return Finding(name, *key, text, 1, why, offset, group=group)


Window = tuple[str, str, str, int]
"""Group, topic, source, number of the window."""


class Audit:
    """audit-missing, audit-surplus: an auditing group has counted what producers have published.

    It has counted what it got of each producer and window, and has read the producer's own count
    (running/outside/auditing.py). A window without a monitoring event is not judged: its producer
    has died with its counts, or the event is lost. ``audited`` are the names of the topics.
    """

    def __init__(self, trace: FactSource, history: History, audited: Container[str]) -> None:
        self._history = history
        self._audited = audited
        self._published: dict[Window, int] = {}  # records
        self._counted: dict[Window, int] = {}
        follow(trace, self)

    def on_AuditPublished(self, _seq: int, _t: int, _node: str, fact: facts.AuditPublished) -> None:
        """Take a producer's count."""
        self._published[fact.group, fact.topic, fact.source, fact.window] = fact.records

    def on_AuditCounted(self, _seq: int, _t: int, _node: str, fact: facts.AuditCounted) -> None:
        """Take what the group got."""
        window = (fact.group, fact.topic, fact.source, fact.window)
        self._counted[window] = self._counted.get(window, 0) + fact.records

    def finish(self) -> list[Finding]:
        """Return a finding for each window that does not add up."""
        found = []
        for window, published in sorted(self._published.items()):
            group, topic, source, number = window
            counted = self._counted.get(window, 0)
            if counted != published:
                name = "audit-missing" if counted < published else "audit-surplus"
                text = f"group {group} counted {counted} records of window {number} of"
                text = f"{text} {source} in {topic}, which says {published}"
                found.append(Finding(name, "", -1, text, 1, self._why(group, topic), group=group))
        return found

    def _why(self, group: str, topic: str) -> str:
        """Return which legal loss of the topic's records, or the group's commits, there was."""
        spots = [
            Spot((topic_id, partition))
            for topic_id, created in self._history.topics.items()
            for partition in range(created.partitions)
            if created.topic == topic in self._audited
        ]
        return self._history.footing.lost([*spots, self._history.footing.of_group(group)])
