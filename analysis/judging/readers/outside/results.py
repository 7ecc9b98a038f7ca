"""Results that groups keep outside of Kafka: does each record have exactly one?

The databases of a group's members are read when the run ends (the fact FinalResults). A member
handles a partition in the order of its offsets, so a record without a result is lost if a later one
of its partition has a result, or if the group has committed past it. A database knows a topic by
its name, so results of a topic that was created again are not judged: they are of two logs.

A legal loss explains only results that rested on it. A second result rests on the first record at
the offset, if the loss came between two deliveries, and on the group's commits. A read_committed
group may have passed over the offset while it was hidden: a marker stood there, or an aborted
record. A missing result rests on what hid it, from its append on: a loss of that marker, of that
record or of a marker that aborted it leaves room for another record, or another decision. Both rest
on the group's positions and commits before auto.offset.reset moved it: below the offset for a
second result, past it for a missing one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection

from kafkasim.analysis.judging.delivery import RESETS
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.footing import Footing, Spot
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.recreated.names import TopicNames
from kafkasim.analysis.judging.source import Losses, PartitionKey
from kafkasim.model import facts

Place = tuple[str, PartitionKey]
"""A group and a partition."""


class StoredResults:
    """Follows one run; :meth:`finish` returns an anomaly for each partition, group and excuse.

    ``groups`` are those that may keep results: without any it costs nothing to follow polls.
    """

    def __init__(
        self, trace: FactSource, holes: Contents, losses: Losses, groups: Collection[str]
    ) -> None:
        self._holes = holes
        self._footing = Footing(trace, losses)
        self._stored: dict[Place, Counter[int]] = {}
        self._first: dict[Place, int] = {}  # where a group began
        self._resets: dict[Place, list[tuple[int, int]]] = {}  # to which offset, in which row
        # What poll() returned: the first and the last offset, and the row.
        self._polled: dict[Place, list[tuple[int, int, int]]] = {}
        self._committed: dict[tuple[str, str, int], int] = {}  # the highest offset
        self._topics = TopicNames(trace)
        self._start: dict[PartitionKey, int] = {}  # the highest log start at the end
        trace.subscribe(facts.FinalResults, self._on_results)
        trace.subscribe(facts.Positioned, self._on_positioned)
        if groups:
            trace.subscribe(facts.Polled, self._on_polled)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.FinalReplica, self._on_replica)

    def _on_results(self, _seq: int, _t: int, _node: str, fact: facts.FinalResults) -> None:
        place = (fact.group, (fact.topic_id, fact.partition))
        self._stored.setdefault(place, Counter()).update(fact.offsets)

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason != "none":
            place = (fact.group, (fact.topic_id, fact.partition))
            self._first[place] = min(fact.offset, self._first.get(place, fact.offset))
            if fact.reason in RESETS:
                self._resets.setdefault(place, []).append((fact.offset, seq))

    def _on_polled(self, seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        if fact.offsets:
            place = (fact.group, (fact.topic_id, fact.partition))
            self._polled.setdefault(place, []).append((fact.offsets[0], fact.offsets[-1], seq))

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        name = (fact.group, fact.topic, fact.partition)
        self._committed[name] = max(fact.offset, self._committed.get(name, 0))

    def _on_replica(self, _seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        if fact.leading:
            key = (fact.topic_id, fact.partition)
            self._start[key] = max(fact.log_start_offset, self._start.get(key, 0))

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition and group."""
        found = []
        for place, stored in sorted(self._stored.items(), key=lambda each: each[0][::-1]):
            group, (topic_id, _) = place
            if topic_id in self._topics.others:
                continue
            twice = sorted(offset for offset, times in stored.items() if times > 1)
            for excuse, offsets in self._by_excuse("duplicate-result", place, twice).items():
                detail = f"group {group} stored {stored[offsets[0]]} results of offset {offsets[0]}"
                found.append(_anomaly("duplicate-result", place, offsets, detail, excuse))
            missing = self._missing(*place, stored)
            for excuse, offsets in self._by_excuse("lost-result", place, missing).items():
                detail = f"group {group} stored no result of offset {offsets[0]}"
                found.append(_anomaly("lost-result", place, offsets, detail, excuse))
        return found

    def _by_excuse(self, name: str, place: Place, offsets: list[int]) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for offset in offsets:
            excuse = self._footing.lost(self._spots(name, place, offset))
            found.setdefault(excuse, []).append(offset)
        return found

    def _spots(self, name: str, place: Place, offset: int) -> list[Spot]:
        """Return what the result of an offset rests on; see the module's head."""
        group, key = place
        resets = self._resets.get(place, ())
        spots = []
        if name == "lost-result":
            if self._holes.was_read_committed(group, key):
                spots.append(Spot(key, offset))  # a marker that hid it, or that decided on it
            moved = [row for to, row in resets if to > offset]
        else:
            got = [
                row for first, last, row in self._polled.get(place, ()) if first <= offset <= last
            ]
            if len(got) > 1:
                spots.append(Spot(key, offset, offset + 1, got[0], got[-1]))
                spots.append(self._footing.of_group(group, before=got[-1]))
            moved = [row for to, row in resets if to <= offset and got and got[0] < row < got[-1]]
        if moved:
            spots += self._footing.of_reset(group, key, max(moved))
        return spots

    def _missing(self, group: str, key: PartitionKey, stored: Counter[int]) -> list[int]:
        committed = self._committed.get((group, self._topics.name.get(key[0], key[0]), key[1]), 0)
        end = max(committed, max(stored, default=-1) + 1)
        start = max(self._first.get((group, key), end), self._start.get(key, 0))
        committed_only = self._holes.was_read_committed(group, key)
        return [
            offset
            for offset in range(start, end)
            if offset not in stored and self._holes.holds(key, offset, committed_only)
        ]


def _anomaly(name: str, place: Place, offsets: list[int], detail: str, excuse: str) -> Finding:
    group, key = place
    return Finding(name, *key, detail, len(offsets), excuse, offset=offsets[0], group=group)
