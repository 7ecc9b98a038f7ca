"""Deletions that a group never hears of: it has read a value, and the tombstone is gone.

missed-deletion, an observation: the group passes the place of the tombstone once a cleaner has
removed that. delete.retention.ms was shorter than the group's lag, which Kafka allows.

lost-deletion, an anomaly: it does so before delete.retention.ms have gone by since the first
cleaning that met the tombstone. KIP-534 promises each reader that time (KAFKA-4545, B88). A
cleaning removes a tombstone only if it began at the batch's delete horizon or later, and the
horizon is delete.retention.ms behind the begin of a cleaning that met the batch: on the broker that
removes it, or on one from which that copied the batch. The earliest of these horizons is the bound.
No fact tells the time of a begin on the simulation's clock. So what was left until the horizon when
the cleaning that removed the tombstone began is counted from the swap of its segments. That makes
the bound later by the duration of this cleaning, and blames none that began at the horizon.

A tombstone that gave way to a later record of its key is not missed, nor is an aborted one. Where
leaders of several epochs appended at one offset, the record that stands counts
(``history/contents.py``): it is not always the one that was appended last.
"""

from __future__ import annotations

from bisect import bisect_right, insort
from collections.abc import Callable

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Place = tuple[int, int]
"""Offset and leader epoch of a record"""


class _Topic:
    """What leaders have appended to one compacted partition, and what cleaners did with it."""

    __slots__ = ("by_key", "keys", "met", "removed", "tombstones")

    def __init__(self) -> None:
        self.keys: dict[Place, str] = {}
        self.by_key: dict[str, list[Place]] = {}  # ascending
        self.tombstones: dict[Place, int] = {}  # the row that appended it
        self.met: list[tuple[int, int, int, int]] = []
        """Of each cleaning: base, next offset, row, and the horizon that it sets, in ms"""
        self.removed: dict[Place, int] = {}
        """Last tombstones of their keys: until when they should have stayed, in µs"""

    def append(self, place: Place, key: str, tombstone: bool, seq: int) -> None:
        """Put a record at a place; what the same leader epoch had there before was truncated."""
        before = self.keys.get(place)
        if before is not None:
            self.by_key[before].remove(place)
        self.keys[place] = key
        insort(self.by_key.setdefault(key, []), place)
        self.removed.pop(place, None)
        self.tombstones.pop(place, None)
        if tombstone:
            self.tombstones[place] = seq

    def horizon_ms(self, place: Place) -> int:
        """Return the earliest delete horizon of the tombstone at a place, which was met."""
        since, offset = self.tombstones[place], place[0]
        return min([ms for base, end, seq, ms in self.met if base <= offset < end and seq > since])


class MissedDeletions:
    """Follows what groups read of compacted topics; ``note(observation, µs)`` is told."""

    def __init__(
        self, trace: FactSource, holes: Contents, note: Callable[[str, int], None] = lambda *_: None
    ) -> None:
        self._trace = trace
        self._holes = holes
        self._note = note
        self._topics: dict[PartitionKey, _Topic] = {}
        self._next: dict[tuple[str, str, PartitionKey], int] = {}  # by group and member
        self._values: dict[tuple[str, PartitionKey], dict[str, None]] = {}  # keys with a value
        self._lost: dict[tuple[str, PartitionKey], list[tuple[int, int, str]]] = {}
        """By group: offset, row of the poll, and key of each lost deletion"""
        trace.subscribe(facts.KeysAppended, self._on_keys)

    def _on_keys(self, seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        key = (fact.topic_id, fact.partition)
        if not self._topics:  # runs without a compacted topic pay for nothing else
            self._trace.subscribe(facts.Cleaned, self._on_cleaned)
            self._trace.subscribe(facts.Positioned, self._on_positioned)
            self._trace.subscribe(facts.Polled, self._on_polled)
        topic = self._topics.setdefault(key, _Topic())
        for offset, name in enumerate(fact.keys, fact.base_offset):
            place = (offset, fact.leader_epoch)
            topic.append(place, name, offset in fact.tombstones, seq)

    def _on_cleaned(self, seq: int, t_us: int, _node: str, fact: facts.Cleaned) -> None:
        key = (fact.topic_id, fact.partition)
        topic = self._topics.get(key)
        if topic is None:
            return
        horizon_ms = fact.began_ms + fact.delete_retention_ms
        topic.met.append((fact.base_offset, fact.next_offset, seq, horizon_ms))
        for offset in fact.removed_offsets():
            place = (offset, self._holes.epoch(key, offset))
            if place in topic.tombstones and place not in topic.removed:
                same = topic.by_key[topic.keys[place]]
                behind = same[bisect_right(same, place) :]
                if self._holes.is_aborted(key, offset) or any(
                    offset < later < fact.mapped_offset
                    and self._holes.epoch(key, later) in (epoch, -1)
                    and not self._holes.is_aborted(key, later)
                    for later, epoch in behind
                ):
                    continue
                early_ms = topic.horizon_ms(place) - fact.began_ms
                topic.removed[place] = t_us + 1000 * early_ms

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        reader = (fact.group, fact.member_id, (fact.topic_id, fact.partition))
        if fact.reason == "none":
            self._next.pop(reader, None)
        else:
            self._next[reader] = fact.offset

    def _on_polled(self, seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        key = (fact.topic_id, fact.partition)
        topic = self._topics.get(key)
        if topic is None or not fact.offsets:
            return
        reader, group = (fact.group, fact.member_id, key), (fact.group, key)
        expected = self._next.get(reader, fact.offsets[0])
        values = self._values.setdefault(group, {})
        for offset in fact.offsets:
            for passed in range(expected, offset):
                place = (passed, self._holes.epoch(key, passed))
                if place in topic.removed and topic.keys[place] in values:
                    self._note("missed-deletion", t_us)
                    if t_us < topic.removed[place]:
                        missed = (passed, seq, topic.keys[place])
                        self._lost.setdefault(group, []).append(missed)
            place = (offset, self._holes.epoch(key, offset))
            if place in topic.tombstones:
                values.pop(topic.keys[place], None)
            elif place in topic.keys:
                values[topic.keys[place]] = None
            expected = offset + 1
        self._next[reader] = expected

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition and group."""
        return [
            Finding(
                "lost-deletion", *key,
                f"group {group} keeps the value of {lost[0][2]}: its deletion at offset"
                f" {lost[0][0]} was removed before its delete horizon",
                len(lost),
                offset=lost[0][0], group=group, seq=lost[0][1],
            )
            for (group, key), lost in sorted(self._lost.items(), key=lambda each: each[0][::-1])
        ]  # fmt: skip
