"""What a log knows of its producers although a cleaner has removed the batches that told it."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

from kafkasim.analysis.judging.invariants.traced import TracedCluster, TracedPartition
from kafkasim.analysis.judging.source import PartitionKey


class Replay:
    """One producer as a replay of a log's batches gives it."""

    __slots__ = ("epoch", "heard_ms", "last", "marked", "open", "sequence")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.last: Any = None  # the last batch with data of this epoch
        self.sequence: int | None = None  # its last one, −1 without it; None: not in the log
        self.heard_ms = -1  # the timestamp of its last batch or marker, as it expires by it
        self.open = -1  # where its open transaction began, −1 without one
        self.marked = False  # its last marker is not replicated


def began_at(
    cluster: TracedCluster, key: PartitionKey, replayed: dict[int, Replay], offset: int
) -> bool:
    """Return whether a transaction whose marker is not replicated began at an offset, in a batch
    that a cleaner has removed.

    The cleaner knew a higher high watermark: that of a broker that has crashed since, or of another
    replica. A snapshot of producers tells where the transaction began.
    """
    state = cluster.partitions[key]
    original = state.originals.get(state.removed.get(offset, (-1, -1)))
    if original is None or original[0] != offset:
        return False
    producer = replayed.get(original[3][0])
    return producer is not None and producer.marked


def began_in_gap(partition: TracedPartition, log: Any, entry: Any, state: Replay) -> bool:
    """Return whether the batch with which a producer's open transaction began has been removed.

    A cleaner removes nothing behind the last stable offset (LogCleanerManager.cleanableOffsets), so
    the transaction had ended then. Its marker is gone: a truncation has cut it off, or a cleaner
    has removed it. The producers were loaded from a snapshot that was written before that marker
    (ProducerStateManager.truncateAndReload), and the batches that are left add to the transaction
    (ProducerAppendInfo.appendDataBatch). A marker without its record ends none.
    """
    first = entry.txn_first_offset
    batch = partition.originals.get(partition.removed.get(first, (-1, -1)))
    if batch is None or first >= (state.open if state.open >= 0 else log.log_end_offset):
        return False
    producer = entry.producer_id
    if (batch[0], *batch[3][:2]) != (first, producer, entry.epoch):
        return False
    return entry.epoch == state.epoch and not any(
        one.base_offset <= first <= one.last_offset
        or (one.producer_id == producer and one.control and one.records and first < one.base_offset)
        for one in log.batches_from(log.log_start_offset)
    )


def missed_end(log: Any, entry: Any, missed: Container[int]) -> bool:
    """Return whether a producer's transaction is open because the log got its marker emptied.

    Cleaner.cleanInto keeps the batch of a producer's last marker without its record, which
    ProducerAppendInfo.append ignores. A replica that was away has the transaction still.
    """
    batches = log.batches_from(entry.txn_first_offset)
    own = [one for one in batches if one.producer_id == entry.producer_id and one.control]
    return any(not one.records and one.base_offset in missed for one in own)


def is_cleaned(log: Any, entry: Any, state: Replay) -> bool:
    """Return whether the last batch of a producer lies in a gap of the log, behind all others."""
    last = entry.batches[-1][2] if entry.batches else -1
    if last >= log.log_end_offset or (state.last is not None and last <= state.last.last_offset):
        return False
    return last >= 0 and not any(
        one.base_offset <= last <= one.last_offset for one in log.batches_from(log.log_start_offset)
    )


def raised_epoch(partition: TracedPartition, log: Any, entry: Any, state: Replay) -> bool:
    """Return whether the batch with which a producer raised its epoch has been removed.

    The cleaner keeps the last batch of each producer that the log knows then, so there was a later
    one. A truncation has cut that off, and loaded the producers from a snapshot that was written in
    between (Cleaner.cleanInto, ProducerStateManager.truncateAndReload).
    """
    if entry.txn_first_offset != state.open or not is_cleaned(log, entry, state):
        return False
    first, _, last, *_ = entry.batches[-1]
    batch = partition.originals.get(partition.removed.get(last, (-1, -1)))
    told = (entry.producer_id, entry.epoch, first)
    return batch is not None and (batch[1] - 1, batch[3][:3]) == (last, told)
