"""Loading a log at start (LogLoader, LogSegment.recover).

After a clean stop the segments are trusted. Otherwise every segment that reaches above the recovery
point is scanned: at the first batch that is damaged or out of order the log ends, and all later
segments go. What the scan finds rebuilds the indexes, the leader epochs and the producer state.

Omitted: swap and cleaned files of an interrupted compaction.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.storage.log.segment import Segment

if TYPE_CHECKING:
    from kafkasim.model.storage.log.log import Log


def load(log: Log, clean: bool, now_ms: int) -> None:
    """Fill a new :class:`Log` from its directory; its offsets hold the checkpoints' values."""
    checkpointed_start = log.log_start_offset
    checkpointed_high_watermark = log.high_watermark
    log.segments = _open_segments(log)
    if clean:
        for segment in log.segments:
            segment.load(now_ms)
    else:
        _recover(log, now_ms)
    if log.segments:
        log.log_end_offset = log.segments[-1].next_offset
    if not log.segments or log.log_end_offset < checkpointed_start:
        log.truncate_fully_and_start_at(checkpointed_start)
    end = log.log_end_offset
    log.log_start_offset = max(checkpointed_start, log.segments[0].base_offset)
    log.recovery_point = (
        end if clean else log.rules.recovery_point_after_recovery(log.recovery_point, end)
    )
    log.epochs.truncate_from_end(end)
    log.epochs.truncate_from_start(checkpointed_start)
    log.high_watermark = log.rules.high_watermark_after_load(
        checkpointed_high_watermark, log.log_start_offset, end
    )
    log.rebuild_producers(now_ms)


def _open_segments(log: Log) -> list[Segment]:
    prefix = log.directory + "/"
    interval = log.config.index_interval_bytes
    bases = [
        int(path[len(prefix) : -len(".log")])
        for path in log.files.paths(prefix)
        if path.endswith(".log")
    ]
    return [Segment(log.files, log.directory, base, interval) for base in sorted(bases)]


def _recover(log: Log, now_ms: int) -> None:
    """Scan the segments that reach above the recovery point; cut at the first bad batch."""
    segments = log.segments
    # Kafka trusts them; but a power loss may bring a snapshot back that a truncation had deleted.
    log.producers.delete_snapshots_after(log.recovery_point)
    compacted = "compact" in log.config.cleanup_policy
    end, epoch = -1, -1
    for index, segment in enumerate(segments):
        is_last = index + 1 == len(segments)
        if not is_last and segments[index + 1].base_offset <= log.recovery_point:
            segment.load(now_ms)
        elif end >= 0 and not log.rules.recovers_segment(segment.base_offset, end, compacted):
            _delete_from(log, index)
            return
        else:
            cut = segment.recover(now_ms, log.rules, epoch)
            log.epochs.assign_all(_epoch_starts(segment, log.epochs.latest_epoch))
            if cut:
                _delete_from(log, index + 1)
                return
        end = segment.next_offset
        if segment.batches:
            epoch = segment.batches[-1].leader_epoch


def _delete_from(log: Log, index: int) -> None:
    for segment in log.segments[index:]:
        segment.delete()
    del log.segments[index:]


def _epoch_starts(segment: Segment, latest_epoch: int) -> list[tuple[int, int]]:
    starts = []
    for batch in segment.batches:
        if batch.leader_epoch > latest_epoch:
            latest_epoch = batch.leader_epoch
            starts.append((latest_epoch, batch.base_offset))
    return starts
