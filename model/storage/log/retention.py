"""Deleting old segments (UnifiedLog.deleteOldSegments): by log start, by size, by time.

Only whole segments below the high watermark go, oldest first. When all of them are due, the active
one is rolled first, so that a log always has a segment. File deletion is immediate here; Kafka
renames to ``.deleted`` and removes the files after file.delete.delay.ms.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.storage.log.segment import Segment

if TYPE_CHECKING:
    from kafkasim.model.storage.log.log import Log


def delete_old_segments(log: Log, now_ms: int) -> int:
    """Delete what retention allows; return the number of segments."""
    start = log.log_start_offset
    deleted = _delete(log, lambda segment: _end(log, segment) <= start)
    config = log.config
    if "delete" not in config.cleanup_policy:
        return deleted
    if 0 <= config.retention_bytes < log.size:
        excess = log.size - config.retention_bytes

        def too_big(segment: Segment) -> bool:
            nonlocal excess
            if excess < segment.size:
                return False
            excess -= segment.size
            return True

        deleted += _delete(log, too_big)
    if config.retention_ms >= 0:
        limit = now_ms - config.retention_ms
        deleted += _delete(log, lambda segment: segment.largest_timestamp_ms < limit)
    return deleted


def _end(log: Log, segment: Segment) -> int:
    """The base of the next segment; of the active one, the log end."""
    index = log.segments.index(segment) + 1
    return log.log_end_offset if index == len(log.segments) else log.segments[index].base_offset


def _delete(log: Log, due: Callable[[Segment], bool]) -> int:
    """Delete the oldest segments as long as they are below the bound and ``due``."""
    segments = log.segments
    bound = log.rules.retention_bound(log.high_watermark, log.log_end_offset)
    count = 0
    for segment in segments:
        empty = segment is segments[-1] and not segment.size
        if empty or _end(log, segment) > bound or not due(segment):
            break
        count += 1
    if not count:
        return 0
    if count == len(segments):
        log.roll(log.log_end_offset)
    for segment in segments[:count]:
        segment.delete()
    del segments[:count]
    start = segments[0].base_offset
    log.producers.delete_snapshots_before(start)
    if start > log.log_start_offset:
        log.set_log_start(start, "retention")
        log.epochs.truncate_from_start(start)
    return count
