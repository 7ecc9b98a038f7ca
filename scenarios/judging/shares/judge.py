"""Share groups: no record is delivered again once it is done, held twice, or skipped (KIP-932).

What a leader hands out is judged by its own facts, ShareAcquired and ShareMoved, and what a member
was told by ShareAcknowledged. Four promises:

- ``accepted-again``: a leader handed out a record that a member had been told is accepted or
  rejected. It answers only when that state is persisted, so no later leader may forget it.
- ``held-twice``: one leader gave a record to a member while another one held it and its lock had
  not expired.
- ``over-delivered``: one leader gave a record out more often than group.share.delivery.count.limit
  allows. Deliveries that an ended session took back do not count.
- ``share-skipped``: a share partition's start has moved past a committed record that no leader had
  accepted, rejected or archived.

Another leader knows what is persisted, and no more: locks and deliveries since then it has
forgotten. Records that a leader has legally lost are not judged behind the first of them, and
nothing is where the topic of the states itself has lost records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from kafkasim.model import facts
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC
from kafkasim.scenarios.judging.delivery import Anomaly
from kafkasim.scenarios.judging.source import FactSource, Losses, PartitionKey, final_leaders

SharePartition: TypeAlias = tuple[str, str, int]
"""Group, topic id, partition."""

FINAL = ("ACKNOWLEDGED", "ARCHIVED")
ACCEPT, REJECT = 1, 3


class _Told:
    """What has happened to the records of one share partition."""

    def __init__(self) -> None:
        self.begin = -1  # the first start offset
        self.start = -1  # the present one
        self.deleted = 0  # below it the log had no record any more
        self.leader = ("", -1)  # node and leader epoch
        self.leader_epoch = -1
        self.states: dict[int, str] = {}  # the last state of each offset that moved
        self.done: dict[int, int] = {}  # offset to the row in which a member heard of its end
        self.held: dict[int, tuple[str, int]] = {}  # offset to holder and the end of its lock
        self.deliveries: dict[int, int] = {}  # by this leader
        self.found: dict[str, dict[int, tuple[int, str]]] = {}  # anomaly: offset: row, detail


class Shares:
    """Follows one run; :meth:`finish` returns an anomaly for each kind and share partition."""

    def __init__(
        self,
        trace: FactSource,
        losses: Losses,
        most_deliveries: int = 5,
        note: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """``note(observation, µs)`` is told what happens to records."""
        self._losses = losses
        self._most_deliveries = most_deliveries
        self._note = note
        self._told: dict[SharePartition, _Told] = {}
        self._logs = final_leaders(trace)
        self._state_partitions: dict[PartitionKey, None] = {}
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.SharePartitionLoaded, self._on_loaded),
            (facts.ShareAcquired, self._on_acquired),
            (facts.ShareMoved, self._on_moved),
            (facts.ShareStartMoved, self._on_start),
            (facts.ShareAcknowledged, self._on_acknowledged),
        ):
            trace.subscribe(kind, handler)

    # ------------------------------------------------------------------------------------ facts

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic == SHARE_GROUP_STATE_TOPIC:
            for number in range(fact.partitions):
                self._state_partitions[fact.topic_id, number] = None

    def _of(self, fact: facts.ShareAcquired | facts.ShareAcknowledged | facts.ShareMoved) -> _Told:
        return self._told.setdefault((fact.group, fact.topic_id, fact.partition), _Told())

    def _on_loaded(self, _seq: int, t_us: int, node: str, fact: facts.SharePartitionLoaded) -> None:
        told = self._told.setdefault((fact.group, fact.topic_id, fact.partition), _Told())
        if told.begin < 0:
            told.begin = fact.start_offset
        elif told.leader[0] != node:
            self._note("share-leader-changed", t_us)
        if fact.leader_epoch >= told.leader_epoch:
            told.leader_epoch = fact.leader_epoch
            told.leader = (node, fact.leader_epoch)
            told.start = fact.start_offset
        told.held.clear()
        told.deliveries.clear()

    def _on_acquired(self, seq: int, t_us: int, node: str, fact: facts.ShareAcquired) -> None:
        told = self._of(fact)
        if fact.delivery_count > 1:
            self._note("share-redelivered", t_us)
        current = told.leader == (node, fact.leader_epoch)
        for offset in range(fact.first_offset, fact.last_offset + 1):
            if offset in told.done:
                self._find(told, "accepted-again", offset, seq, "was handed out again")
            if not current:
                continue
            holder, until_us = told.held.get(offset, ("", 0))
            if t_us < until_us:
                self._find(told, "held-twice", offset, seq, f"was held by {holder}")
            told.held[offset] = (fact.member_id, t_us + fact.lock_us)
            count = told.deliveries[offset] = told.deliveries.get(offset, 0) + 1
            if max(count, fact.delivery_count) > self._most_deliveries:
                self._find(told, "over-delivered", offset, seq, f"was delivered {count} times")

    def _on_moved(self, _seq: int, t_us: int, node: str, fact: facts.ShareMoved) -> None:
        told = self._of(fact)
        self._observe(fact, t_us)
        current = told.leader == (node, fact.leader_epoch)
        for offset in range(fact.first_offset, fact.last_offset + 1):
            told.states[offset] = fact.state
            if not current:
                continue
            if fact.state != "ACQUIRED":
                told.held.pop(offset, None)
            if fact.reason == "session-ended" and offset in told.deliveries:
                told.deliveries[offset] -= 1

    def _observe(self, fact: facts.ShareMoved, t_us: int) -> None:
        if fact.reason == "lock-expired":
            self._note("share-lock-expired", t_us)
        elif fact.reason == "session-ended":
            self._note("share-released", t_us)
        if fact.state == "ARCHIVED":
            used_up = fact.delivery_count >= self._most_deliveries
            self._note(f"share-archived:{'deliveries' if used_up else 'rejected'}", t_us)

    def _on_start(self, _seq: int, _t: int, node: str, fact: facts.ShareStartMoved) -> None:
        told = self._told.setdefault((fact.group, fact.topic_id, fact.partition), _Told())
        if told.leader == (node, fact.leader_epoch):
            told.start = fact.start_offset
        if fact.reason == "log-start":
            told.deleted = max(told.deleted, fact.start_offset)

    def _on_acknowledged(
        self, seq: int, _t: int, _node: str, fact: facts.ShareAcknowledged
    ) -> None:
        if fact.error == "NONE":
            told = self._of(fact)
            for offset, kind in zip(fact.offsets, fact.types, strict=True):
                if kind in (ACCEPT, REJECT):
                    told.done.setdefault(offset, seq)

    def _find(self, told: _Told, name: str, offset: int, seq: int, detail: str) -> None:
        told.found.setdefault(name, {}).setdefault(offset, (seq, detail))

    # ------------------------------------------------------------------------------- judgement

    def lag(
        self, group: str, exposed: dict[PartitionKey, int], name: Callable[..., str]
    ) -> list[str]:
        """Return the partitions of which a group has not done all records.

        ``exposed`` are the high watermarks of the partitions that it reads.
        """
        missing = []
        for key, high_watermark in exposed.items():
            told = self._told.get((group, *key))
            start = 0 if told is None else max(told.start, 0)
            if start < high_watermark:
                missing.append(
                    f"share group {group} is at {start} of {high_watermark} in {name(key)}"
                )
        return missing

    def finish(self) -> list[Anomaly]:
        """Return the anomalies of the run, by share partition."""
        found = []
        excused = any(self._losses(key) for key in self._state_partitions)
        for (group, topic_id, number), told in sorted(self._told.items()):
            key = (topic_id, number)
            self._find_skipped(key, told)
            for name, offsets in told.found.items():
                first_lost = min([loss.first for loss in self._losses(key)], default=1 << 62)
                judged = {each: why for each, why in offsets.items() if each < first_lost}
                if not judged or excused:
                    continue
                offset, (seq, detail) = min(judged.items())
                text = f"group {group}: offset {offset} {detail}"
                found.append(
                    Anomaly(name, *key, len(judged), text, offset=offset, group=group, seq=seq)
                )
        return found

    def _find_skipped(self, key: PartitionKey, told: _Told) -> None:
        log = self._logs.get(key)
        if log is None or told.begin < 0:
            return
        for offset in _data_offsets(log):
            if max(told.begin, told.deleted) <= offset < told.start:
                if told.states.get(offset) not in FINAL:
                    self._find(told, "share-skipped", offset, -1, "was skipped")


def _data_offsets(log: facts.FinalReplica) -> list[int]:
    """Return the offsets of the batches with records that are data."""
    found: list[int] = []
    for base, end, count in zip(log.base_offsets, log.next_offsets, log.record_counts, strict=True):
        if count == end - base:  # no marker, and nothing was compacted
            found += range(base, end)
    return found
