"""LOGORDER, EPOCHCACHE, PIDSTATE, ORDER: what must hold within one log.

They are judged on whole logs at the end of a run.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container
from typing import Any

from kafkasim.analysis.judging.copies.stale_replies import StaleReplies
from kafkasim.analysis.judging.harm.truth.nodes import Nodes
from kafkasim.analysis.judging.invariants.cleaned.producers import (
    Replay,
    began_at,
    began_in_gap,
    is_cleaned,
    missed_end,
    raised_epoch,
)
from kafkasim.analysis.judging.invariants.traced import TracedCluster, TracedPartition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import LAST_REPLICA, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.world import EPOCH_US


class WallClocks:
    """The latest wall clocks that hosts may have shown, as the trace tells of steps and drifts.

    A step back is not followed: before it the clock was ahead.
    """

    def __init__(self, trace: FactSource) -> None:
        self._nodes = Nodes(trace)
        self._ahead_us: dict[str, int] = {}  # the largest step
        trace.subscribe(facts.ClockStepped, self._on_step)

    def _on_step(self, _seq: int, _t: int, node: str, fact: facts.ClockStepped) -> None:
        self._ahead_us[node] = max(self._ahead_us.get(node, 0), fact.offset_us)

    def latest_ms(self, node: str, t_us: int) -> int:
        """Return the latest time that a host's wall clock may have shown, in ms since 1970."""
        shown_us = max(t_us, self._nodes.elapsed_us(node, 0, t_us))
        return (EPOCH_US + shown_us + self._ahead_us.get(node, 0)) // 1000


class JumpingAppends:
    """When leaders took batches whose sequence does not follow their producer's one before.

    The first batch with a sequence that a leader takes of a producer in its epoch follows none.
    """

    def __init__(self, trace: FactSource, clocks: WallClocks) -> None:
        self._clocks = clocks
        self._next: dict[tuple[str, int, int, int], int] = {}
        """Topic id, partition, leader epoch, producer id -> the sequence that follows"""
        self._taken: dict[tuple[str, int, int, int], tuple[str, int]] = {}
        """Topic id, partition, leader epoch, base offset -> leader and time in µs"""
        trace.subscribe(facts.Appended, self._on_appended)

    def latest_ms(self, key: PartitionKey, epoch: int, base: int) -> int:
        """Return the latest time, in ms since 1970, that the leader's clock may have shown then.

        It is −1 if the batch at ``base`` follows the one before.
        """
        node, t_us = self._taken.get((*key, epoch, base), ("", -1))
        return self._clocks.latest_ms(node, t_us) if node else -1

    def _on_appended(self, _seq: int, t: int, node: str, fact: facts.Appended) -> None:
        first = fact.base_sequence
        if first < 0:
            return
        place = (fact.topic_id, fact.partition, fact.leader_epoch, fact.producer_id)
        if self._next.get(place) != first:
            self._taken[(*place[:3], fact.base_offset)] = (node, t)
        self._next[place] = first + fact.next_offset - fact.base_offset


def check_log(
    cluster: TracedCluster,
    seq: int,
    t: int,
    node: str,
    fact: facts.FinalReplica,
    jumps: JumpingAppends,
    stale: StaleReplies,
) -> None:
    """LOGORDER, EPOCHCACHE and ORDER of one replica's final log."""
    key = (fact.topic_id, fact.partition)
    order = (
        fact.log_start_offset,
        fact.last_stable_offset,
        fact.high_watermark,
        fact.log_end_offset,
    )
    if list(order) != sorted(order):
        cluster.violated(
            "LOGORDER", seq, t, key,
            f"{node}: log start, last stable offset, high watermark and log end are {order}",
        )  # fmt: skip
    _check_epochs(cluster, seq, t, node, fact, stale)
    _check_sequences(cluster, seq, t, node, fact, jumps)


def _check_epochs(
    cluster: TracedCluster,
    seq: int,
    t: int,
    node: str,
    fact: facts.FinalReplica,
    stale: StaleReplies,
) -> None:
    """EPOCHCACHE: the leader-epoch cache gives each batch the epoch that it has.

    The cache is trimmed at the log start; batches below it wait for the next retention pass. The
    cache's file is written at once, the log start's checkpoint once a minute: after a crash the log
    start may be lower again, and the entries below the higher one are gone (KAFKA.md, 5). A batch
    there may have no epoch, but not another one. An answer to a fetch of an older leader epoch may
    have cut the epoch of a batch off, which then has a lower one or none
    (:mod:`kafkasim.analysis.judging.copies.stale_replies`).
    """
    key = (fact.topic_id, fact.partition)
    trimmed = max(fact.log_start_offset, cluster.partition(*key).replica(node).trimmed)
    epochs, starts = fact.epoch_starts[::2], fact.epoch_starts[1::2]
    for base, epoch in zip(fact.base_offsets, fact.batch_epochs, strict=True):
        at = bisect_right(starts, base) - 1
        cached = epochs[at] if at >= 0 else -1
        if cached < epoch and stale.cut(node, key, base, epoch):
            continue
        if cached != epoch and (at >= 0 or base >= trimmed):
            cluster.violated(
                "EPOCHCACHE", seq, t, key,
                f"{node}: the batch at offset {base} has leader epoch {epoch}, the leader-epoch"
                f" cache has {cached}",
            )  # fmt: skip


def _check_sequences(
    cluster: TracedCluster,
    seq: int,
    t: int,
    node: str,
    fact: facts.FinalReplica,
    jumps: JumpingAppends,
) -> None:
    """ORDER: a producer's sequences rise without a gap, or start again at 0.

    Deleted records count no more: a follower may keep those of a deposed leader below its log
    start, where the present leader has no epoch to compare with (KAFKA.md, 1.2). A leader that has
    forgotten a producer takes any sequence of it (:func:`_was_forgotten`). A follower may keep what
    its leader lost and wrote anew in the same epoch; the next batch follows the leader's.
    """
    key = (fact.topic_id, fact.partition)
    state = cluster.partition(*key)
    trimmed = max(fact.log_start_offset, state.replica(node).trimmed)
    last: dict[int, tuple[int, int, int]] = {}  # producer -> (next sequence, base offset, epoch)
    for base, end, producer, first, epoch in _with_removed(state, fact):
        if producer < 0 or first < 0 or end <= trimmed:
            continue
        known = last.get(producer)
        last[producer] = (first + end - base, base, epoch)
        if known is not None and first not in (known[0], 0):
            log = cluster.view(node, *key)
            appended_ms = jumps.latest_ms(key, epoch, base)
            if log is not None and _was_forgotten(log, producer, base, appended_ms):
                continue
            cluster.violated(
                "ORDER", seq, t, key,
                f"{node}: producer {producer} has sequence {first} at offset {base}; its batch"
                f" before, at offset {known[1]}, ended before sequence {known[0]}",
                LAST_REPLICA if state.was_reopened(known[2], known[1]) else "",
            )  # fmt: skip


def _was_forgotten(log: Any, producer: int, base: int, appended_ms: int) -> bool:
    """Return whether a leader may have forgotten a producer when it took the batch at ``base``.

    The leader takes any sequence of a producer that it does not know
    (ProducerAppendInfo.checkSequence). A transactional producer does not use the sequences of
    batches again that expired on their first attempt (Sender.sendProducerData), whether they were
    lost on their way or with a deposed leader, so a gap may follow. The leader answers
    OUT_OF_ORDER_SEQUENCE_NUMBER until the producer has expired in the log below ``base``; its
    markers count as Kafka counts them.

    ``appended_ms`` is the latest time that the leader's clock may have shown then, −1 if the batch
    follows what the leader had in its epoch.
    """
    state = _replay(log, base)[0].get(producer)
    return appended_ms >= 0 and state is not None and _may_forget(log, appended_ms, None, state)


def _with_removed(
    state: TracedPartition, fact: facts.FinalReplica
) -> list[tuple[int, int, int, int, int]]:
    """Return (base, end, producer, first sequence, leader epoch) of a log's batches, and of those
    that it had until a cleaner removed them.

    What was removed from a log that has been lost since is not part of it: of an older leader epoch
    a log has what ends at the start of the next one.
    """
    batches = [
        *zip(
            fact.base_offsets, fact.next_offsets, fact.producer_ids, fact.base_sequences,
            fact.batch_epochs, strict=True,
        )
    ]  # fmt: skip
    if not state.removed:
        return batches
    held = dict.fromkeys(zip(fact.next_offsets, fact.batch_epochs, strict=True))
    epochs, starts = fact.epoch_starts[::2], (*fact.epoch_starts[1::2], fact.log_end_offset)
    for place in dict.fromkeys(state.removed.values()):
        original = state.originals.get(place)
        next_epoch_at = starts[bisect_right(epochs, place[1])]
        if original is not None and place not in held and place[0] <= next_epoch_at:
            base, end, epoch, content = original
            batches.append((base, end, content[0], content[2], epoch))
    return sorted(batches)


def _replay(
    log: Any, end: int | None = None, *, emptied: bool = True
) -> tuple[dict[int, Replay], int, int]:
    """Return the producers of a log, and two last stable offsets, by reading all its batches.

    With ``end``, only those below it are read; without ``emptied`` no marker whose record the
    cleaner has removed. The lower one counts the transactions whose markers are not replicated. A
    broker that has started since may have forgotten these, because producer snapshots do not name
    them.
    """
    producers: dict[int, Replay] = {}
    stable = log.high_watermark
    for batch in log.batches_from(log.log_start_offset):
        if end is not None and batch.base_offset >= end:
            break
        if batch.producer_id < 0 or (batch.control and not batch.records and not emptied):
            continue
        state = producers.get(batch.producer_id)
        opened = state.open if state is not None else log.log_start_offset or -1
        if state is None:
            state = producers[batch.producer_id] = Replay(batch.producer_epoch)
        elif state.epoch != batch.producer_epoch:
            state.epoch, state.last, state.sequence = batch.producer_epoch, None, -1
        if not batch.control or log.producers.marker_refreshes or state.heard_ms < 0:
            state.heard_ms = batch.max_timestamp_ms
        if batch.control:
            state.marked = batch.base_offset >= log.high_watermark
            if opened >= 0 and state.marked:  # decided, but the marker is not replicated
                stable = min(stable, opened)  # it may have begun below the log start
            state.open = -1
        else:
            state.last = batch
            if batch.transactional and state.open < 0:
                state.open = batch.base_offset
    for state in producers.values():
        if state.last is not None:
            state.sequence = state.last.last_sequence
    opened = [state.open for state in producers.values() if state.open >= 0]
    highest = min([log.high_watermark, *opened])
    return producers, min(stable, highest), highest


def check_producer_state(
    cluster: TracedCluster,
    seq: int,
    t: int,
    node: str,
    key: tuple[str, int],
    log: Any,
    latest_ms: int,
    forgotten: int = 0,
    missed: Container[int] = (),
    reloaded: int = 0,
) -> None:
    """PIDSTATE: the log's state of each producer is what a replay of its batches gives.

    That is epoch, last sequence and open transaction. If all agree, so must the last stable offset.
    A transaction that began below the log start is not judged, nor a producer that the log may have
    forgotten (producer.id.expiration.ms) by ``latest_ms``, the latest wall clock of its broker.
    A log that is truncated when it knows nobody reads no producer again: all have expired, and no
    marker waits for its replication (UnifiedLog.rebuildProducerState, isEmptyBeforeTruncation). So
    it may lack one with an open transaction, whose marker was cut off although a high watermark had
    passed it, or the log was loaded with it, if its last data is below ``forgotten``, the end of
    the log then; its last stable offset is behind that transaction. Below ``reloaded``, its end
    then, the log may have a transaction of a snapshot (:func:`_of_snapshot`). At ``missed`` another
    replica's cleaner had been before this one copied on (:func:`missed_end`).
    """
    replayed, lowest, highest = _replay(log)
    partition, entries, start = cluster.partitions[key], log.producers.entries, log.log_start_offset
    whole = not any(0 <= entry.txn_first_offset < start for entry in entries.values())
    for producer, state in replayed.items():
        entry = entries.get(producer)
        held, given = _held(entry), _given(partition, log, state, entry)
        read_now = held != given and held == _read_now(partition, log, producer)
        if held is not None and read_now and missed_end(log, entry, missed):
            given = held
        if start <= given[2] != state.open:
            lowest, highest = min(lowest, given[2]), min(highest, given[2])
        if held == given or read_now:
            continue
        if held is not None and raised_epoch(partition, log, entry, state):
            continue
        may_forget = _may_forget(log, latest_ms, held, state, forgotten)
        whole = whole and may_forget and state.open < 0  # the LSO passes what was forgotten
        if not may_forget and not _of_snapshot(log, producer, held, reloaded):
            cluster.violated(
                "PIDSTATE", seq, t, key,
                f"{node} has {held} as state of producer {producer}; a replay of its log gives"
                f" {given} (epoch, last sequence, start of its open transaction)",
            )  # fmt: skip
    if whole and not began_at(cluster, key, replayed, log.last_stable_offset):
        _check_stable(cluster, seq, t, node, key, log, lowest, highest)


def may_know_nobody(log: Any, latest_ms: int) -> bool:
    """Return whether all producers of a log have expired by ``latest_ms``, as its batches tell."""
    expired_ms = latest_ms - int(log.producers.expiration_ms)
    return all(
        state.open < 0 and state.heard_ms <= expired_ms for state in _replay(log)[0].values()
    )


def _of_snapshot(log: Any, producer: int, held: tuple[int, ...] | None, below: int) -> bool:
    """Return whether a replay gave this state at an offset below ``below``, with a transaction
    open: there a snapshot may be.

    A log that knows nobody loads it when it is truncated, and reads no marker behind it again.
    """
    for batch in log.batches_from(log.log_start_offset) if below else ():
        if batch.base_offset >= below:
            return False
        state = _replay(log, batch.base_offset)[0].get(producer)
        if state is not None and state.open >= 0 and held == (
            state.epoch, state.sequence, state.open
        ):  # fmt: skip
            return True
    return False


def _check_stable(
    cluster: TracedCluster,
    seq: int,
    t: int,
    node: str,
    key: PartitionKey,
    log: Any,
    lowest: int,
    highest: int,
) -> None:
    """PIDSTATE of a log's last stable offset."""
    start, stable = log.log_start_offset, log.last_stable_offset
    if not max(lowest, start) <= stable <= max(highest, start):
        cluster.violated(
            "PIDSTATE", seq, t, key,
            f"{node} has the last stable offset {stable}; a replay of its log gives"
            f" {lowest} to {highest}",
        )  # fmt: skip


def _given(partition: TracedPartition, log: Any, state: Replay, entry: Any) -> tuple[int, ...]:
    """Return what a log must hold of a producer; what is not in the log any more is as it holds it.

    That is the last sequence if a snapshot of producers was written before the cleaner removed its
    batch, because there was a later one, which has been truncated since; and where the open
    transaction began (:func:`began_in_gap`).
    """
    sequence, opened = state.sequence, state.open
    held = _held(entry)
    if held is not None:
        gone = sequence is None or (held[0] == state.epoch and is_cleaned(log, entry, state))
        sequence = held[1] if gone else sequence
        if 0 <= held[2] < log.log_start_offset or began_in_gap(partition, log, entry, state):
            opened = held[2]
    return (state.epoch, -1 if sequence is None else sequence, opened)


def _read_now(partition: TracedPartition, log: Any, producer: int) -> tuple[int, ...] | None:
    """Return what a replica has of a producer that got the log after it was cleaned.

    A marker without its record tells nothing (ProducerAppendInfo.append), not even the epoch.
    """
    state = _replay(log, emptied=False)[0].get(producer)
    return (
        None
        if state is None
        else _given(partition, log, state, log.producers.entries.get(producer))
    )


def _held(entry: Any) -> tuple[int, ...] | None:
    """Return the epoch, last sequence and start of the open transaction of a log's producer."""
    if entry is None:
        return None
    return (entry.epoch, entry.batches[-1][1] if entry.batches else -1, entry.txn_first_offset)


def _may_forget(
    log: Any,
    latest_ms: int,
    held: tuple[int, ...] | None,
    state: Replay,
    forgotten: int = 0,
) -> bool:
    """Return whether a log may have forgotten a producer, or all but its markers.

    It forgets whose last batch or marker is producer.id.expiration.ms old; if markers came after
    that, they alone tell of the producer, and its last data is as old. A producer with an open
    transaction is not forgotten (ProducerStateManager.isProducerExpired), unless its marker has
    been cut off since and the log, which ended at ``forgotten``, knew nobody then.
    """
    if state.open >= 0 and (state.last is None or state.last.base_offset >= forgotten):
        return False
    heard_ms = state.heard_ms
    if held == (state.epoch, -1, -1) and state.last is not None:
        heard_ms = state.last.max_timestamp_ms
    elif held is not None:
        return False
    return latest_ms - heard_ms >= int(log.producers.expiration_ms)
