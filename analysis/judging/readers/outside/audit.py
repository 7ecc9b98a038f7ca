"""The audit's check: does any window not add up?

An auditing group has counted what it got of each producer and window, and has read the producer's
own count (running/outside/auditing.py). A window without a monitoring event is not judged: its
producer has died with its counts, or the event is lost.

A legal loss explains only windows that rested on it: on the window's own records where they were
appended, for as long as they stayed in the log, and on the group's positions and commits before
auto.offset.reset passed over them, or led back to them. A window that lacks records is explained
only if losses explain each acknowledged record that the group has not got. A retry may have
appended such a record twice: then no copy may stand in the log that no loss explains.

A window with too many records is explained only if losses explain each time that the group got one
again, and it got as many again as there are too many. It got the same copy again because its
commits were lost since it got it first, or a reset led back to it; and another copy because the
first one was lost, so that the producer sent it again.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from kafkasim.analysis.judging.delivery import NOWHERE, RESETS
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.footing import END, Footing, Spot
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.outside.stays import Stays
from kafkasim.analysis.judging.source import Losses, PartitionKey
from kafkasim.model import facts

MISSING, SURPLUS = "audit-missing", "audit-surplus"

Window = tuple[str, str, str, int]
"""Group, topic, source, number of the window."""


@dataclass(frozen=True, slots=True)
class _Copy:
    """A record where a leader has appended it."""

    key: PartitionKey
    offset: int
    seq: int  # the row of the append
    until: int  # the row before which it was in the log


@dataclass(frozen=True, slots=True)
class _Delivery:
    """A record that a group has got and counted."""

    key: PartitionKey
    offset: int
    seq: int  # the row of the poll


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
        self._counted: dict[Window, int] = {}  # records
        self._appended: list[tuple[int, facts.Appended]] = []  # with rows
        self._acked: dict[str, dict[int, None]] = {}  # topic -> ids of acknowledged records
        # By group, host and partition: what poll() returned and the member has not counted yet, as
        # offset and record id, with the row.
        self._polled: dict[tuple[str, str, PartitionKey], dict[tuple[int, int], int]] = {}
        # By group and record id: when the group got what it has counted.
        self._got: dict[str, dict[int, list[_Delivery]]] = {}
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
                self._trace.subscribe(facts.Acked, self._on_acked)
                self._trace.subscribe(facts.Appended, self._on_appended)
                self._trace.subscribe(facts.Polled, self._on_polled)
                self._trace.subscribe(facts.Processed, self._on_processed)
                self._stays.follow()
            self._topics[fact.topic_id] = fact.topic

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if fact.topic_id in self._topics:
            self._appended.append((seq, fact))

    def _on_acked(self, _seq: int, _t: int, _node: str, fact: facts.Acked) -> None:
        if fact.topic_id in self._topics:
            acked = self._acked.setdefault(self._topics[fact.topic_id], {})
            acked.update(dict.fromkeys(fact.record_ids))

    def _on_polled(self, seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        if fact.topic_id in self._topics:
            place = (fact.group, node, (fact.topic_id, fact.partition))
            records = zip(fact.offsets, fact.record_ids)
            self._polled.setdefault(place, {}).update(dict.fromkeys(records, seq))

    def _on_processed(self, _seq: int, _t: int, node: str, fact: facts.Processed) -> None:
        """A member that dies between poll() and its count has not got the records."""
        place = (fact.group, node, (fact.topic_id, fact.partition))
        got = self._got.setdefault(fact.group, {})
        for (offset, record_id), polled in self._polled.pop(place, {}).items():
            if fact.base_offset <= offset < fact.offset:
                got.setdefault(record_id, []).append(_Delivery(place[2], offset, polled))

    def _on_published(self, _seq: int, _t: int, _node: str, fact: facts.AuditPublished) -> None:
        self._published[fact.group, fact.topic, fact.source, fact.window] = fact

    def _on_counted(self, _seq: int, _t: int, _node: str, fact: facts.AuditCounted) -> None:
        window = (fact.group, fact.topic, fact.source, fact.window)
        self._counted[window] = self._counted.get(window, 0) + fact.records

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.topic_id in self._topics and fact.reason in RESETS:
            place = (fact.group, (fact.topic_id, fact.partition))
            self._resets.setdefault(place, []).append((fact.offset, seq))

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by name and group."""
        odd: dict[tuple[str, str, str], list[Window]] = {}
        for window, published in sorted(self._published.items()):
            counted = self._counted.get(window, 0)
            if counted != published.records:
                name = MISSING if counted < published.records else SURPLUS
                excuse = self._why_missing(window) if name == MISSING else self._why_more(window)
                odd.setdefault((name, window[0], excuse), []).append(window)
        return [
            Finding(name, *NOWHERE, self._told(windows[0]), len(windows), excuse, group=group)
            for (name, group, excuse), windows in sorted(odd.items())
        ]

    def _why_missing(self, window: Window) -> str:
        """Return why all records that a window lacks are lost, which Kafka allows, or ""."""
        group, topic = window[:2]
        published, got = self._published[window], self._got.get(group, ())
        copies: dict[int, list[_Copy]] = {
            each: []
            for each in self._acked.get(topic, ())
            if published.first_record <= each <= published.last_record and each not in got
        }
        for record_id, copy in self._copies(window):
            if record_id in copies:
                copies[record_id].append(copy)
        reasons = [self._why_lost(group, copies[each]) for each in sorted(copies)]
        missing = published.records - self._counted.get(window, 0)
        return reasons[0] if len(reasons) >= missing and all(reasons) else ""

    def _why_lost(self, group: str, copies: list[_Copy]) -> str:
        """Return why a group cannot get any copy of a record, or ""."""
        found = ""
        for copy in copies:
            spots = [Spot(copy.key, copy.offset, copy.offset + 1, copy.seq, copy.until)]
            resets = self._resets.get((group, copy.key), ())
            for row in [row for to, row in resets if to > copy.offset][-1:]:
                spots += self._footing.of_reset(group, copy.key, row)
            why = self._footing.lost(spots)
            if not why and copy.until == END:
                return ""
            found = found or why
        return found

    def _why_more(self, window: Window) -> str:
        """Return why a group got records of a window again: legal losses, or ""."""
        group, published = window[0], self._published[window]
        copies: dict[int, list[_Copy]] = {}
        for record_id, copy in self._copies(window):
            copies.setdefault(record_id, []).append(copy)
        reasons = [
            self._why_again(group, first, again, copies.get(record_id, []))
            for record_id, got in sorted(self._got.get(group, {}).items())
            if published.first_record <= record_id <= published.last_record
            for first, again in pairwise(sorted(got, key=lambda each: each.seq))
        ]
        surplus = self._counted[window] - published.records
        return reasons[0] if len(reasons) >= surplus and all(reasons) else ""

    def _why_again(
        self, group: str, first: _Delivery, again: _Delivery, copies: Sequence[_Copy]
    ) -> str:
        """Return which legal loss explains that a group got a record twice, or ""."""
        was, came = _copy_of(first, copies), _copy_of(again, copies)
        if was is not None and was != came:
            until = min(again.seq, was.until)
            return self._footing.lost([Spot(was.key, was.offset, was.offset + 1, was.seq, until)])
        spots = [self._footing.of_group(group, after=first.seq, before=again.seq)]
        resets = self._resets.get((group, again.key), ())
        led_back = [row for to, row in resets if first.seq < row < again.seq and to <= again.offset]
        for row in led_back[-1:]:
            spots += self._footing.of_reset(group, again.key, row)
        return self._footing.lost(spots)

    def _copies(self, window: Window) -> Iterator[tuple[int, _Copy]]:
        """Yield each append of a window's records, with the record's id."""
        published = self._published[window]
        for seq, fact in self._appended:
            if self._topics[fact.topic_id] == window[1]:
                key = (fact.topic_id, fact.partition)
                for offset, record_id in enumerate(fact.record_ids, fact.base_offset):
                    if published.first_record <= record_id <= published.last_record:
                        until = self._stays.until(key, offset, fact.leader_epoch, seq)
                        yield record_id, _Copy(key, offset, seq, until)

    def _told(self, window: Window) -> str:
        group, topic, source, number = window
        counted = self._counted.get(window, 0)
        return (
            f"group {group} counted {counted} records of window {number} of"
            f" {source} in {topic}, which says {self._published[window].records}"
        )


def _copy_of(got: _Delivery, copies: Iterable[_Copy]) -> _Copy | None:
    """Return the copy that a group got: the last one that was appended there before."""
    there = [
        copy
        for copy in copies
        if (copy.key, copy.offset) == (got.key, got.offset) and copy.seq < got.seq
    ]
    return max(there, key=lambda copy: copy.seq, default=None)
