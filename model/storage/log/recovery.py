"""Loading a log when its broker starts (Kafka: LogLoader, LogSegment.recover).

After a clean stop the segments are trusted. After an unclean one, every segment that reaches above
the recovery point is scanned: the log ends at the first batch that is damaged or out of order, and
all later segments are deleted. The scan rebuilds the indexes, the leader epochs and the producer
state. What an interrupted cleaning has left is dealt with before
(:mod:`kafkasim.model.storage.segment_swap`).
"""

from __future__ import annotations

from kafkasim.model.storage.log.epochs import LeaderEpochCache
from kafkasim.model.storage.log.local_log import LocalLog
from kafkasim.model.storage.log.producers.state_manager import ProducerStateManager
from kafkasim.model.storage.log.segment import Segment


def load(
    local: LocalLog,
    epochs: LeaderEpochCache,
    producers: ProducerStateManager,
    log_start_offset: int,
    clean: bool,
    now_ms: int,
) -> int:
    """Fill a log's new parts from its directory and return its log start offset.

    ``log_start_offset`` is the checkpointed one, as is ``local.recovery_point``. An empty log is
    created where the directory has none, or one that ends below the checkpointed log start.
    """
    local.segments.extend(_open_segments(local))
    if clean:
        for index, segment in enumerate(local.segments):
            if not segment.load(now_ms):
                _rebuild_transactions(local, index, producers, log_start_offset, now_ms)
    else:
        _recover(local, epochs, producers, log_start_offset, now_ms)
    if local.segments:
        local.log_end_offset = local.segments[-1].next_offset
    if not local.segments or local.log_end_offset < log_start_offset:
        local.truncate_fully_and_start_at(log_start_offset)
        epochs.clear()
        producers.truncate_fully_and_start_at(log_start_offset)
    end = local.log_end_offset
    rules = local.rules
    local.loaded(end if clean else rules.recovery_point_after_recovery(local.recovery_point, end))
    epochs.truncate_from_end(end)
    epochs.truncate_from_start(log_start_offset)
    start = max(log_start_offset, local.segments[0].base_offset)
    rebuild_producers(local, producers, start, now_ms)
    return start


def rebuild_producers(
    local: LocalLog, producers: ProducerStateManager, log_start_offset: int, now_ms: int
) -> None:
    """Bring the producer state to the log end (UnifiedLog.rebuildProducerState).

    The newest usable snapshot is loaded, without producers that have expired, and the batches above
    it are replayed; not if the state was empty at or beyond the new end (isEmptyBeforeTruncation).
    """
    end = local.log_end_offset
    was_empty = producers.is_empty and producers.map_end_offset >= end
    producers.truncate_and_reload(log_start_offset, end, now_ms)
    if producers.map_end_offset < end and not was_empty:
        start = max(producers.map_end_offset, log_start_offset)
        producers.replay(local.batches_from(start), end)
    producers.map_end_offset = end


def _open_segments(local: LocalLog) -> list[Segment]:
    prefix = local.directory + "/"
    interval = local.config.index_interval_bytes
    bases = [
        int(path[len(prefix) : -len(".log")])
        for path in local.files.paths(prefix)
        if path.endswith(".log")
    ]
    return [Segment(local.files, local.directory, base, interval) for base in sorted(bases)]


def _recover(
    local: LocalLog,
    epochs: LeaderEpochCache,
    producers: ProducerStateManager,
    log_start_offset: int,
    now_ms: int,
) -> None:
    """Scan the segments that reach above the recovery point; cut at the first bad batch."""
    segments, rules = local.segments, local.rules
    # Kafka trusts later snapshots; but a power loss may bring back one that a truncation deleted.
    producers.delete_snapshots_after(local.recovery_point)
    compacted = local.config.compacted
    trusted = _load_flushed(local, producers, log_start_offset, now_ms)
    end = segments[trusted].base_offset if segments else -1
    epochs_before = [each.batches[-1].leader_epoch for each in segments[:trusted] if each.batches]
    epoch = epochs_before[-1] if epochs_before else -1
    for index in range(trusted, len(segments)):
        segment = segments[index]
        if not rules.recovers_segment(segment.base_offset, end, compacted):
            _delete_from(segments, index)
            return
        cut = segment.recover(now_ms, rules, epoch)
        epochs.assign_all(_epoch_starts(segment, epochs.latest_epoch))
        _rebuild_transactions(local, index, producers, log_start_offset, now_ms)
        if cut:
            _delete_from(segments, index + 1)
            return
        end = segment.next_offset
        if segment.batches:
            epoch = segment.batches[-1].leader_epoch


def _load_flushed(
    local: LocalLog, producers: ProducerStateManager, log_start_offset: int, now_ms: int
) -> int:
    """Load the segments that end below the recovery point; return how many there are.

    A power loss may bring back a segment that was deleted from the front of the log, with a tail
    that had been cut. It reaches into the next segment, which was written after it. Kafka's log
    has both until retention deletes the first, and no reader gets there; here it goes at once, with
    those before it.
    """
    segments = local.segments
    count = len([each for each in segments[1:] if each.base_offset <= local.recovery_point])
    intact = [segment.load(now_ms) for segment in segments[:count]]
    stale = 0
    for index in range(count):
        if segments[index].next_offset > segments[index + 1].base_offset:
            stale = index + 1
    for segment in segments[:stale]:
        segment.delete()
    del segments[:stale], intact[:stale]
    for index, fine in enumerate(intact):
        if not fine:
            _rebuild_transactions(local, index, producers, log_start_offset, now_ms)
    return count - stale


def _rebuild_transactions(
    local: LocalLog,
    index: int,
    producers: ProducerStateManager,
    log_start_offset: int,
    now_ms: int,
) -> None:
    """Write the transaction index of a segment again (LogLoader.recoverSegment).

    A transaction that ends in the segment may have begun in an earlier one, so the producer state
    at the segment's start is made first.
    """
    segment = local.segments[index]
    segment.transactions.reset()
    if not any(batch.control and batch.producer_id >= 0 for batch in segment.batches):
        return
    base_offset = segment.base_offset
    state = producers.copy_at(log_start_offset, base_offset, now_ms)
    start = state.map_end_offset
    earlier = [batch for each in local.segments[:index] for batch in each.batches]
    state.replay([batch for batch in earlier if batch.base_offset >= start], base_offset)
    for batch in segment.batches:
        completed = state.update(batch)
        if completed is not None:
            state.transactions.index(completed, segment.transactions)


def _delete_from(segments: list[Segment], index: int) -> None:
    for segment in segments[index:]:
        segment.delete()
    del segments[index:]


def _epoch_starts(segment: Segment, latest_epoch: int) -> list[tuple[int, int]]:
    starts = []
    for batch in segment.batches:
        if batch.leader_epoch > latest_epoch:
            latest_epoch = batch.leader_epoch
            starts.append((latest_epoch, batch.base_offset))
    return starts
