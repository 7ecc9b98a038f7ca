"""The leaders and followers of all partitions, with times, for several judges of harm.

The facts of appends and high watermarks are the most frequent ones, so they are followed once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

QUIET_US = 1_000_000
"""A high watermark that stood still for longer is looked at."""


class Leader:
    """A replica that leads: its log, its high watermark, and what its followers have fetched."""

    __slots__ = (
        "appended_us", "caught_up", "end", "ends", "epoch", "first_ids", "grown_us",
        "high_watermark", "high_watermarks", "hw_us", "inherited", "key", "min_isr", "node",
        "producer_ids", "since_us", "start", "whole",
    )  # fmt: skip

    def __init__(self, key: PartitionKey, node: str, fact: facts.BecameLeader, now: int) -> None:
        self.key = key
        self.node = node
        self.epoch = fact.leader_epoch
        self.since_us = self.grown_us = self.hw_us = now
        self.start = self.end = fact.start_offset
        self.high_watermark = fact.high_watermark
        self.min_isr = 0  # effective, at the last high watermark; 0 unknown
        self.caught_up: dict[int, int] = {}  # broker -> when it was caught up at the latest
        # Who had everything when the high watermark was the log end last; who has lost or begun
        # anew its log since is left out.
        self.whole: tuple[int, ...] = ()
        # In parallel, of each batch appended in this epoch: its end, when, its producer, its first
        # record's id (−1: none).
        self.ends: list[int] = []
        self.appended_us: list[int] = []
        self.producer_ids: list[int] = []
        self.first_ids: list[int] = []
        self.inherited: list[tuple[int, int]] = []  # clients' batches above: (producer id, end)
        self.high_watermarks: list[tuple[int, int]] = []  # and when they were reached

    def has_whole_log(self, broker: int) -> bool:
        """Return whether the leader knows that a follower's log ends where its own does."""
        return self.end == self.high_watermark and broker in self.whole

    def forget(self, broker: int) -> None:
        """Take note that a follower may fetch from a lower offset next."""
        if broker in self.whole:
            self.whole = tuple([each for each in self.whole if each != broker])


class Follower:
    """What a replica has fetched in a leader epoch."""

    __slots__ = ("above", "ahead_us", "broker", "epoch", "next_offset", "since_us", "t_us", "whole")

    def __init__(self, broker: int, epoch: int) -> None:
        self.broker = broker
        self.epoch = epoch
        self.next_offset = -1
        self.since_us = self.t_us = 0  # of the appends before the last one and of the last one
        self.whole = False  # the last append made it as long as the leader's log
        self.above = -1  # a high watermark of the leader
        self.ahead_us = 0  # when the replica appended something above it, at the latest


class Logs:
    """Follows one run; ``stood_still(leader, seq, now)`` is called for a high watermark that had
    not moved for ``QUIET_US`` when it moves, and for all that have not by the end or when the
    leader's log is deleted."""

    def __init__(self, trace: FactSource, stood_still: Callable[[Leader, int, int], None]) -> None:
        self.leaders: dict[tuple[PartitionKey, str], Leader] = {}
        self.newest: dict[PartitionKey, Leader] = {}
        self.followers: dict[tuple[PartitionKey, str], Follower] = {}
        self.appends: dict[str, list[tuple[int, int, Leader, int]]] = {}
        """By node, in order: (when, producer id, leader, end offset) of clients' batches; also of
        those that it had when it became the leader"""
        self._stood_still = stood_still
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.Replicated, self._on_replicated)
        trace.subscribe(facts.HighWatermark, self._on_high_watermark)
        trace.subscribe(facts.LogDeleted, self._on_deleted)
        for kind in (facts.LogLoaded, facts.LogPlaced, facts.Truncated):
            trace.subscribe(kind, self._on_other_log)
        trace.subscribe(facts.HostStarted, self._on_lost)
        trace.subscribe(facts.LogDirOffline, self._on_lost)
        trace.subscribe(facts.Phase, self._on_phase)

    def _on_leader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        leader = self.leaders[key, node] = Leader(key, node, fact, t)
        known = self.newest.get(key)
        if known is None or known.epoch <= fact.leader_epoch:
            if known is not None:
                self._stood_still(known, seq, t)
                self._inherit(leader, known, t)
            self.newest[key] = leader

    def _inherit(self, leader: Leader, former: Leader, now: int) -> None:
        """Note what the new leader has of the former one above its high watermark: a producer that
        sends it again waits for it as for what this leader appends."""
        least, most = leader.high_watermark, leader.start
        found = [each for each in former.inherited if least < each[1] <= most]
        for at in range(bisect_right(former.ends, least), len(former.ends)):
            if former.first_ids[at] != -1 and former.ends[at] <= most:
                found.append((former.producer_ids[at], former.ends[at]))
        leader.inherited = found
        if found:
            appends = self.appends.setdefault(leader.node, [])
            appends += [(now, producer, leader, end) for producer, end in found]

    def _on_appended(self, _seq: int, t: int, node: str, fact: facts.Appended) -> None:
        leader = self.leaders.get(((fact.topic_id, fact.partition), node))
        if leader is not None:
            leader.end = end = fact.next_offset
            leader.grown_us = t
            leader.ends.append(end)
            leader.appended_us.append(t)
            leader.producer_ids.append(fact.producer_id)
            ids = fact.record_ids
            leader.first_ids.append(ids[0] if ids else -1)
            if ids:
                self.appends.setdefault(node, []).append((t, fact.producer_id, leader, end))

    def _on_high_watermark(self, seq: int, t: int, node: str, fact: facts.HighWatermark) -> None:
        leader = self.leaders.get(((fact.topic_id, fact.partition), node))
        if leader is None:
            return
        hw = fact.high_watermark
        if t - leader.hw_us > QUIET_US:
            self._stood_still(leader, seq, t)
        if leader.end == hw:
            grown, caught_up = leader.grown_us, leader.caught_up
            leader.whole = fact.acknowledged
            for broker in fact.acknowledged:
                caught_up[broker] = grown
        leader.high_watermark = hw
        leader.hw_us = t
        leader.min_isr = fact.min_isr
        leader.high_watermarks.append((hw, t))

    def _on_replicated(self, _seq: int, t: int, node: str, fact: facts.Replicated) -> None:
        key = (fact.topic_id, fact.partition)
        leader = self.newest.get(key)
        epoch = fact.leader_epoch
        if leader is None or leader.epoch != epoch:
            return
        known = self.followers.get((key, node))
        if known is None or known.epoch != epoch:
            known = self.followers[key, node] = Follower(broker_of(node), epoch)
            known.t_us = leader.since_us  # no fetch of this epoch was read before
        elif known.whole and known.next_offset == fact.base_offset:
            broker = known.broker
            if leader.caught_up.get(broker, -1) < known.since_us:
                leader.caught_up[broker] = known.since_us
        known.since_us = known.t_us
        known.t_us = t
        known.next_offset = end = fact.next_offset
        known.whole = end == leader.end
        if known.above != leader.high_watermark and end > leader.high_watermark:
            known.above = leader.high_watermark
            known.ahead_us = t

    def _on_other_log(self, _seq: int, _t: int, node: str, fact: Any) -> None:
        """A replica has another log than before, or less of it."""
        leader = self.newest.get((fact.topic_id, fact.partition))
        if leader is not None:
            leader.forget(broker_of(node))

    def _on_lost(self, _seq: int, _t: int, node: str, _fact: Any) -> None:
        """A host began anew, or a log directory failed: any log of it may be another one."""
        if node.startswith("broker-"):
            for leader in self.newest.values():
                leader.forget(broker_of(node))

    def _on_deleted(self, seq: int, t: int, node: str, fact: facts.LogDeleted) -> None:
        self._on_other_log(seq, t, node, fact)
        key = (fact.topic_id, fact.partition)
        leader = self.leaders.pop((key, node), None)
        if leader is not None and self.newest.get(key) is leader:
            self._stood_still(leader, seq, t)
            del self.newest[key]

    def _on_phase(self, seq: int, t: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase in ("liveness", "end"):
            for leader in self.newest.values():
                self._stood_still(leader, seq, t)
