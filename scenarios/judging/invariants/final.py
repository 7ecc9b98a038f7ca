"""LOGORDER, EPOCHCACHE, PIDSTATE, ORDER: what one log must be, judged on whole logs.

Called at the end of a run and from tests; the slow twin of MATCH stands here too
(:func:`disagreements`), which compares whole logs pair by pair.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

from kafkasim.model import facts
from kafkasim.scenarios.judging.invariants.traced import TracedCluster


def check_log(
    cluster: TracedCluster, seq: int, t: int, node: str, fact: facts.FinalReplica
) -> None:
    """Judge one replica's final log."""
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
    epochs, starts = fact.epoch_starts[::2], fact.epoch_starts[1::2]
    last: dict[int, tuple[int, int]] = {}
    for index, base in enumerate(fact.base_offsets):
        at = bisect_right(starts, base) - 1
        cached = epochs[at] if at >= 0 else -1
        # Below the log start is what the next retention pass deletes; its epochs are gone already.
        if cached != fact.batch_epochs[index] and base >= fact.log_start_offset:
            cluster.violated(
                "EPOCHCACHE", seq, t, key,
                f"{node}: the batch at offset {base} has leader epoch {fact.batch_epochs[index]},"
                f" the leader-epoch cache says {cached}",
            )  # fmt: skip
        _check_order(cluster, seq, t, node, fact, index, last)


def _check_order(
    cluster: TracedCluster, seq: int, t: int, node: str, fact: facts.FinalReplica,
    index: int, last: dict[int, tuple[int, int]],
) -> None:  # fmt: skip
    """A producer's sequences rise without a gap, or start again at 0 under a new epoch."""
    producer, first = fact.producer_ids[index], fact.base_sequences[index]
    if producer < 0 or first < 0:
        return
    known = last.get(producer)
    size = fact.next_offsets[index] - fact.base_offsets[index]
    last[producer] = (first + size, fact.base_offsets[index])
    if known is not None and first not in (known[0], 0):
        cluster.violated(
            "ORDER", seq, t, (fact.topic_id, fact.partition),
            f"{node}: producer {producer} has sequence {first} at offset"
            f" {fact.base_offsets[index]} behind the batch at offset {known[1]} that ended before"
            f" sequence {known[0]}",
        )  # fmt: skip


def check_producer_state(
    cluster: TracedCluster, seq: int, t: int, node: str, key: tuple[str, int], log: Any
) -> None:
    """PIDSTATE: what the log remembers of each producer is a replay of its batches."""
    remembered = {
        producer: (entry.epoch, entry.batches[-1][1])
        for producer, entry in log.producers.entries.items()
        if entry.batches
    }
    replayed: dict[int, tuple[int, int]] = {}
    for batch in log.batches_from(log.log_start_offset):
        if batch.producer_id >= 0 and batch.base_sequence >= 0:
            replayed[batch.producer_id] = (batch.producer_epoch, batch.last_sequence)
    for producer, entry in replayed.items():
        if remembered.get(producer) != entry:
            cluster.violated(
                "PIDSTATE", seq, t, key,
                f"{node} remembers {remembered.get(producer)} of producer {producer}, its log"
                f" says {entry} (epoch, last sequence)",
            )  # fmt: skip


def disagreements(logs: Sequence[tuple[str, Any]]) -> list[str]:
    """Return where two logs disagree below their lower high watermark, or at one (offset, epoch).

    The slow twin of MATCH: quadratic in replicas, linear in batches, reading the logs themselves.
    """
    found = []
    for index, (left, one) in enumerate(logs):
        for right, other in logs[index + 1 :]:
            start = max(one.log_start_offset, other.log_start_offset)
            below = min(one.high_watermark, other.high_watermark)
            mine = {b.base_offset: b for b in one.batches_from(start)}
            for batch in other.batches_from(start):
                same = mine.get(batch.base_offset)
                if same is None:
                    if batch.base_offset < below:
                        found.append(f"{left} lacks offset {batch.base_offset} of {right}")
                elif same is not batch and same != batch:
                    agreed = same.leader_epoch == batch.leader_epoch
                    if agreed or batch.base_offset < below:
                        found.append(f"{left} and {right} differ at offset {batch.base_offset}")
    return found
