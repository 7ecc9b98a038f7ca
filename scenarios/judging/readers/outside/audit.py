"""The audit's check: does any window not add up?

An auditing group has counted what it got of each producer and window, and has read the producer's
own count (running/outside/auditing.py). A window without a monitoring event is not judged: its
producer has died with its counts, or the event is lost.

A legal loss explains only windows that rested on it: on the window's own records where they were
appended (if the window lacks records, on those that the group has not got), for as long as they
stayed in the log, and on the group's positions and commits before auto.offset.reset passed over
them, or led back to them. A window with too many records rests on the group's commits, too.
"""

from __future__ import annotations

from collections.abc import Container
from dataclasses import dataclass

from kafkasim.model import facts
from kafkasim.scenarios.judging.delivery import NOWHERE, RESETS, Anomaly
from kafkasim.scenarios.judging.readers.outside.stays import Stays
from kafkasim.scenarios.judging.source import FactSource, Losses, PartitionKey
from kafkasim.scenarios.judging.transactions.footing import END, Footing, Spot

MISSING, SURPLUS = "audit-missing", "audit-surplus"

Window = tuple[str, str, str, int]
"""Group, topic, source, number of the window."""


@dataclass(slots=True)
class _Counted:
    records: int = 0
    first: int = -1  # the row of the first count
    last: int = -1


class Audit:
    """Follows one run; :meth:`finish` returns an anomaly for each group, mismatch and excuse.

    ``audited`` are the names of the topics of which producers publish counts.
    """

    def __init__(self, trace: FactSource, losses: Losses, audited: Container[str]) -> None:
        self._footing = Footing(trace, losses)
        self._stays = Stays(trace)
        self._audited = audited
        self._topics: dict[str, str] = {}  # topic id -> name, of audited topics
        self._published: dict[Window, facts.AuditPublished] = {}
        self._counted: dict[Window, _Counted] = {}
        self._appended: list[tuple[int, facts.Appended]] = []  # with rows
        # By group, host and partition: what poll() returned and the member has not counted yet.
        self._polled: dict[tuple[str, str, PartitionKey], list[tuple[int, int]]] = {}
        self._got: dict[str, set[int]] = {}  # group -> ids of the records that it has counted
        # By group and partition: to which offset, in which row.
        self._resets: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.AuditPublished, self._on_published)
        trace.subscribe(facts.AuditCounted, self._on_counted)
        trace.subscribe(facts.Positioned, self._on_positioned)
        self._trace = trace

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Follow the appends from the first audited topic on: without one they cost nothing."""
        if fact.topic in self._audited:
            if not self._topics:
                self._trace.subscribe(facts.Appended, self._on_appended)
                self._trace.subscribe(facts.Polled, self._on_polled)
                self._trace.subscribe(facts.Processed, self._on_processed)
                self._stays.follow()
            self._topics[fact.topic_id] = fact.topic

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if fact.topic_id in self._topics:
            self._appended.append((seq, fact))

    def _on_polled(self, _seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        if fact.topic_id in self._topics:
            place = (fact.group, node, (fact.topic_id, fact.partition))
            self._polled.setdefault(place, []).extend(zip(fact.offsets, fact.record_ids))

    def _on_processed(self, _seq: int, _t: int, node: str, fact: facts.Processed) -> None:
        """A member that dies between poll() and its count has not got the records."""
        place = (fact.group, node, (fact.topic_id, fact.partition))
        got = self._got.setdefault(fact.group, set())
        for offset, record_id in self._polled.pop(place, ()):
            if fact.base_offset <= offset < fact.offset:
                got.add(record_id)

    def _on_published(self, _seq: int, _t: int, _node: str, fact: facts.AuditPublished) -> None:
        self._published[fact.group, fact.topic, fact.source, fact.window] = fact

    def _on_counted(self, seq: int, _t: int, _node: str, fact: facts.AuditCounted) -> None:
        window = (fact.group, fact.topic, fact.source, fact.window)
        counted = self._counted.setdefault(window, _Counted(first=seq))
        counted.records += fact.records
        counted.last = seq

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.topic_id in self._topics and fact.reason in RESETS:
            place = (fact.group, (fact.topic_id, fact.partition))
            self._resets.setdefault(place, []).append((fact.offset, seq))

    def finish(self) -> list[Anomaly]:
        """Return the anomalies of the run, sorted by name and group."""
        odd: dict[tuple[str, str, str], list[Window]] = {}
        for window, published in sorted(self._published.items()):
            counted = self._counted.get(window, _Counted()).records
            if counted != published.records:
                name = MISSING if counted < published.records else SURPLUS
                excuse = self._footing.lost(self._spots(name, window))
                odd.setdefault((name, window[0], excuse), []).append(window)
        return [
            Anomaly(name, *NOWHERE, len(windows), self._told(windows[0]), excuse, group=group)
            for (name, group, excuse), windows in sorted(odd.items())
        ]

    def _spots(self, name: str, window: Window) -> list[Spot]:
        """Return what the count of a window rests on; see the module's head."""
        group, topic = window[:2]
        spots, after, shown = [], -1, END
        if name == SURPLUS:
            after, shown = self._counted[window].first, self._counted[window].last
            spots.append(self._footing.of_group(group, before=shown))
        published = self._published[window]
        got = self._got.get(group, ()) if name == MISSING else ()
        for seq, fact in self._appended:
            if self._topics[fact.topic_id] != topic:
                continue
            key = (fact.topic_id, fact.partition)
            for offset, record_id in enumerate(fact.record_ids, fact.base_offset):
                within = published.first_record <= record_id <= published.last_record
                if within and record_id not in got:
                    until = self._stays.until(key, offset, fact.leader_epoch, seq)
                    spots.append(Spot(key, offset, offset + 1, seq, min(shown, until)))
                    moved = [
                        row
                        for to, row in self._resets.get((group, key), ())
                        if after < row < shown and (to > offset) == (name == MISSING)
                    ]
                    for row in moved[-1:]:
                        spots += self._footing.of_reset(group, key, row)
        return spots

    def _told(self, window: Window) -> str:
        group, topic, source, number = window
        counted = self._counted.get(window, _Counted()).records
        return (
            f"group {group} counted {counted} records of window {number} of"
            f" {source} in {topic}, which says {self._published[window].records}"
        )
