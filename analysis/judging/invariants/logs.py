"""LOGORDER, EPOCHCACHE, ORDER, NODUP: what must hold within one log."""

from __future__ import annotations

from bisect import bisect_right

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.source import LAST_REPLICA, PartitionKey
from kafkasim.model import facts


class LogOrder:
    """LOGORDER: log start ≤ last stable offset ≤ high watermark ≤ log end, at each step."""

    def __init__(self, history: History, findings: Findings) -> None:
        self._findings = findings

    def on_LogStart(self, seq: int, t: int, node: str, fact: facts.LogStart) -> None:
        """Judge a log start that moves."""
        order = (fact.offset, fact.high_watermark, fact.log_end_offset)
        self._judge(seq, t, node, (fact.topic_id, fact.partition), order)

    def on_LogLoaded(self, seq: int, t: int, node: str, fact: facts.LogLoaded) -> None:
        """Judge what a broker has found at its start."""
        order = (fact.log_start_offset, fact.high_watermark, fact.log_end_offset)
        self._judge(seq, t, node, (fact.topic_id, fact.partition), order)

    def on_BecameLeader(self, seq: int, t: int, node: str, fact: facts.BecameLeader) -> None:
        """Judge a new leader."""
        order = (0, fact.high_watermark, fact.start_offset)
        self._judge(seq, t, node, (fact.topic_id, fact.partition), order)

    def _judge(
        self, seq: int, t: int, node: str, key: PartitionKey, order: tuple[int, int, int]
    ) -> None:
        if list(order) != sorted(order):
            self._findings.add(
                "LOGORDER", seq, t, key,
                f"{node}: log start, high watermark and log end are {order}",
            )  # fmt: skip

    def on_FinalReplica(self, seq: int, t: int, node: str, fact: facts.FinalReplica) -> None:
        """Judge a replica."""
        order = (
            fact.log_start_offset,
            fact.last_stable_offset,
            fact.high_watermark,
            fact.log_end_offset,
        )
        if list(order) != sorted(order):
            self._findings.add(
                "LOGORDER", seq, t, (fact.topic_id, fact.partition),
                f"{node}: log start, last stable offset, high watermark and log end are {order}",
            )  # fmt: skip


class EpochCache:
    """EPOCHCACHE: the leader-epoch cache gives each batch the epoch that it has.

    The cache is trimmed at the log start; batches below it wait for the next retention pass. The
    cache's file is written at once, the log start's checkpoint once a minute: after a crash the log
    start may be lower again, and the entries below the higher one are gone (KAFKA.md, 5). A batch
    there may have no epoch, but not another one.

    An answer to a fetch of an older leader epoch may have cut the epochs of batches below it off
    (LeaderEpochFileCache.maybeTruncateNonMonotonicEntries; KAFKA-18991). These then have a lower
    epoch or none.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._begun: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """By replica and epoch: from which offset on its cache has the epoch, after such an
        answer"""

    def on_StaleReplyUsed(self, _seq: int, _t: int, node: str, fact: facts.StaleReplyUsed) -> None:
        """Note from where on the follower knows the epoch of the batch."""
        begun = self._begun.setdefault((node, (fact.topic_id, fact.partition)), {})
        begun[fact.batch_epoch] = fact.base_offset

    def on_FinalReplica(self, seq: int, t: int, node: str, fact: facts.FinalReplica) -> None:
        """Judge each batch of a replica."""
        key = (fact.topic_id, fact.partition)
        replica = self._history.partition(*key).replica(node)
        trimmed = max(fact.log_start_offset, replica.trimmed)
        begun = self._begun.get((node, key), {})
        epochs, starts = fact.epoch_starts[::2], fact.epoch_starts[1::2]
        for base, epoch in zip(fact.base_offsets, fact.batch_epochs, strict=True):
            at = bisect_right(starts, base) - 1
            cached = epochs[at] if at >= 0 else -1
            if cached < epoch and base < begun.get(epoch, 0):
                continue
            if cached != epoch and (at >= 0 or base >= trimmed):
                self._findings.add(
                    "EPOCHCACHE", seq, t, key,
                    f"{node}: the batch at offset {base} has leader epoch {epoch}, the leader-epoch"
                    f" cache has {cached}",
                )  # fmt: skip


class SequenceOrder:
    """ORDER: a producer's sequences in a log rise without a gap, or start again at 0 (KIP-98).

    Deleted records count no more: a follower may keep those of a deposed leader below its log
    start, where the present leader has no epoch to compare with (KAFKA.md, 1.2). A leader that has
    heard nothing of a producer for producer.id.expiration.ms takes any sequence of it
    (ProducerAppendInfo.checkSequence). A follower may keep what its leader lost and wrote anew in
    the same epoch; the next batch follows the leader's. Logs that were cleaned are not judged.
    """

    def __init__(self, history: History, findings: Findings, expiration_us: int) -> None:
        """``expiration_us`` is producer.id.expiration.ms."""
        self._history = history
        self._findings = findings
        self._expiration_us = expiration_us
        self._last_us: dict[tuple[str, int, int], int] = {}
        """By partition and producer: when a leader took its last batch"""
        self._forgotten: dict[tuple[str, int, int, int], None] = {}
        """Partition, leader epoch and base offset of batches behind such a silence"""

    def on_Appended(self, _seq: int, t: int, node: str, fact: facts.Appended) -> None:
        """Note when a leader may have forgotten a producer."""
        if fact.base_sequence < 0:
            return
        producer = (fact.topic_id, fact.partition, fact.producer_id)
        silent_us = t - self._last_us.get(producer, t)
        self._last_us[producer] = t
        if silent_us >= self._expiration_us or node in self._history.hosts.set_clocks:
            place = (fact.topic_id, fact.partition, fact.leader_epoch, fact.base_offset)
            self._forgotten[place] = None

    def on_FinalReplica(self, seq: int, t: int, node: str, fact: facts.FinalReplica) -> None:
        """Judge the sequences in a replica."""
        key = (fact.topic_id, fact.partition)
        state = self._history.partition(*key)
        if state.removed:
            return
        trimmed = max(fact.log_start_offset, state.replica(node).trimmed)
        last: dict[int, tuple[int, int, int]] = {}  # producer -> (next sequence, base, epoch)
        for base, end, producer, first, epoch in zip(
            fact.base_offsets, fact.next_offsets, fact.producer_ids, fact.base_sequences,
            fact.batch_epochs, strict=True,
        ):  # fmt: skip
            if producer < 0 or first < 0 or end <= trimmed:
                continue
            known = last.get(producer)
            last[producer] = (first + end - base, base, epoch)
            if known is None or first in (known[0], 0) or (*key, epoch, base) in self._forgotten:
                continue
            self._findings.add(
                "ORDER", seq, t, key,
                f"{node}: producer {producer} has sequence {first} at offset {base}; its batch"
                f" before, at offset {known[1]}, ended before sequence {known[0]}",
                LAST_REPLICA if state.was_reopened(known[2], known[1]) else "",
            )  # fmt: skip


class NoDuplicates:
    """NODUP: a leader does not append a producer's epoch and sequence at two offsets (KIP-98).

    A leader that has heard nothing of a producer for producer.id.expiration.ms has forgotten it
    (ProducerStateManager.removeExpiredProducers), so batches that are as far apart may be equal.
    """

    def __init__(self, history: History, findings: Findings, expiration_us: int) -> None:
        """``expiration_us`` is producer.id.expiration.ms."""
        self._history = history
        self._findings = findings
        self._expiration_us = expiration_us
        self._batches: dict[tuple[str, int, int, int, int], tuple[int, int, int, int]] = {}
        """Partition, producer id, epoch, sequence -> offset, next offset, leader epoch, time"""

    def on_Appended(self, seq: int, t: int, node: str, fact: facts.Appended) -> None:
        """Look for the sequence further ahead in the leader's log."""
        if fact.base_sequence < 0:
            return
        key = (fact.topic_id, fact.partition)
        batch = (*key, fact.producer_id, fact.producer_epoch, fact.base_sequence)
        earlier = self._batches.get(batch)
        base, end = fact.base_offset, fact.next_offset
        self._batches[batch] = (base, end, fact.leader_epoch, t)
        if earlier is None or earlier[0] == base or t - earlier[3] >= self._expiration_us:
            return
        log = self._history.partition(*key).replica(node)
        if log.place(earlier[0]) == earlier[1:3]:
            self._findings.add(
                "NODUP", seq, t, key,
                f"producer {fact.producer_id} epoch {fact.producer_epoch} sequence"
                f" {fact.base_sequence} is at offsets {earlier[0]} and {base}",
            )  # fmt: skip
