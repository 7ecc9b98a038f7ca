"""Which of the oldest segments may be deleted (Kafka: UnifiedLog.deleteOldSegments).

Nothing here changes a log; :meth:`UnifiedLog.delete_old_segments` does. It asks three times: for
the segments below the log start, beyond retention.bytes, and older than retention.ms.

Left out: the names that end in ``.deleted``. The files disappear at once; their room on the disk is
free after file.delete.delay.ms.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.model.storage.log.segment import Segment

Due = Callable[[Segment], bool]
"""Whether a segment is to be deleted; asked once for each, the oldest segment first."""


def beyond_size(excess: int) -> Due:
    """Return a predicate: without this segment and the older ones the log is still large enough.

    ``excess`` is the number of bytes by which the log exceeds retention.bytes.
    """

    def due(segment: Segment) -> bool:
        nonlocal excess
        if excess < segment.size:
            return False
        excess -= segment.size
        return True

    return due


def older_than(timestamp_ms: int) -> Due:
    """Return a predicate: every record of the segment is older than ``timestamp_ms``."""
    return lambda segment: segment.largest_timestamp_ms < timestamp_ms


def deletable(segments: list[Segment], log_end_offset: int, bound: int, due: Due | None) -> int:
    """Return how many of the oldest segments are due and end at or below the offset ``bound``.

    Without ``due`` the offset alone decides, and the active segment is not counted
    (deleteLogStartOffsetBreachedSegments); an empty one never is.
    """
    ends = [segment.base_offset for segment in segments[1:]] + [log_end_offset]
    count = 0
    for segment, end in zip(segments, ends, strict=True):
        stays = segment is segments[-1] and (due is None or not segment.size)
        if stays or end > bound or (due and not due(segment)):
            break
        count += 1
    return count
