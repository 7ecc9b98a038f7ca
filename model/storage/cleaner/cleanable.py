"""Which part of a log can be cleaned, and how dirty it is (LogCleanerManager, LogToClean).

The first dirty offset is where the last cleaning ended (file cleaner-offset-checkpoint).
The first uncleanable one is the lowest of the last stable offset, the base of the active segment,
and the base of the first segment with a record younger than min.compaction.lag.ms.
"""

from __future__ import annotations

from kafkasim.model.storage.log.segment import Segment
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.values import value


@value
class LogToClean:
    """A log, and the range of its next cleaning; sizes are in bytes, of whole segments."""

    log: UnifiedLog
    first_dirty_offset: int
    first_uncleanable_offset: int  # the base of a segment
    checkpoint_invalid: bool  # the checkpointed offset is outside the log
    compaction_delay_ms: int  # how long max.compaction.lag.ms has been exceeded, 0: it is not
    clean_bytes: int  # below the first dirty offset
    cleanable_bytes: int

    @property
    def total_bytes(self) -> int:
        """The bytes below the first uncleanable offset."""
        return self.clean_bytes + self.cleanable_bytes

    @property
    def cleanable_ratio(self) -> float:
        """The dirty share of the bytes below the first uncleanable offset."""
        return self.cleanable_bytes / self.total_bytes if self.total_bytes else 0.0

    @property
    def due(self) -> bool:
        """Whether it shall be cleaned: it is dirty enough, or a dirty record is too old."""
        if self.compaction_delay_ms > 0 and self.cleanable_bytes > 0:
            return True
        return self.cleanable_ratio > self.log.config.min_cleanable_dirty_ratio


def segments_between(log: UnifiedLog, start: int, end: int) -> list[Segment]:
    """Return the segments from the one that holds ``start`` to the last that begins below ``end``
    (LogSegments.values)."""
    first = log.local.segment_index(start)
    return [each for each in log.segments[first:] if each.base_offset < end]


def log_to_clean(log: UnifiedLog, checkpoint: int | None, now_ms: int) -> LogToClean:
    """Return what could be cleaned of a log; ``checkpoint`` is None for one never cleaned."""
    start = log.log_start_offset
    dirty = start if checkpoint is None else checkpoint
    invalid = not start <= dirty <= log.log_end_offset
    if invalid:
        dirty = start
    uncleanable = max(dirty, _first_uncleanable(log, dirty, now_ms))
    active = log.segments[-1].base_offset
    later = segments_between(log, uncleanable, active)
    bound = later[0].base_offset if later else active
    low = min(dirty, bound)
    return LogToClean(
        log,
        dirty,
        bound,
        invalid,
        _compaction_delay_ms(log, dirty, now_ms),
        sum([each.size for each in segments_between(log, -1, dirty)]),
        sum([each.size for each in segments_between(log, low, bound)]),
    )


def _first_uncleanable(log: UnifiedLog, dirty: int, now_ms: int) -> int:
    active = log.segments[-1].base_offset
    bound = log.rules.cleanable_bound(log.last_stable_offset, active)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        for segment in segments_between(log, dirty, active):
            if segment.largest_timestamp_ms > now_ms - lag_ms:
                return min(bound, segment.base_offset)
    return bound


def _compaction_delay_ms(log: UnifiedLog, dirty: int, now_ms: int) -> int:
    """Return by how much the oldest dirty segment exceeds max.compaction.lag.ms, 0 if not."""
    active = log.segments[-1].base_offset
    first = [each.first_timestamp_ms for each in segments_between(log, dirty, active)]
    oldest = min([timestamp for timestamp in first if timestamp > 0], default=None)
    limit = now_ms - log.config.max_compaction_lag_ms
    return limit - oldest if oldest is not None and oldest < limit else 0
