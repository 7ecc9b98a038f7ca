"""Putting a cleaned segment in the place of others, and finishing that at a start.

Kafka: LocalLog.replaceSegments, LogLoader.removeTempFilesAndCollectSwapFiles. The names of the
files tell a start how far a swap had come:

    00…0.log.cleaned   not finished: deleted
    00…0.log.swap      finished and flushed: all segments that it replaces are deleted, then it is
                       renamed
    00…0.log           swapped in

A swap is a row of directory operations, which a file system does in order; a power loss may undo
the last ones. Left out: the delay between the renaming of the old files to .deleted and their
deletion (file.delete.delay.ms); a split of a segment into several.
"""

from __future__ import annotations

from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import Files
from kafkasim.model.storage.log.segment import Segment

CLEANED = ".cleaned"
SWAP = ".swap"


def create_cleaned_segment(
    files: Files, directory: str, base_offset: int, index_interval_bytes: int
) -> Segment:
    """Create an empty segment beside the log; what an earlier cleaning left is deleted
    (UnifiedLog.createNewCleanedSegment)."""
    segment = Segment(files, directory, base_offset, index_interval_bytes, CLEANED)
    segment.create()
    return segment


def replace_segments(segments: list[Segment], cleaned: Segment, old: list[Segment]) -> list[int]:
    """Replace some of a log's segments by a cleaned one, which is flushed.

    The caller flushes the directory then.

    Return the base offsets at which no segment begins any more.
    """
    at = segments.index(old[0])
    assert segments[at : at + len(old)] == old, (at, old)
    assert at + len(old) < len(segments), "the active segment is never cleaned"
    assert cleaned.base_offset == old[0].base_offset, (cleaned.base_offset, old[0].base_offset)
    cleaned.rename(SWAP)
    segments[at : at + len(old)] = [cleaned]
    for segment in old:
        segment.delete()
    cleaned.rename("")
    return [segment.base_offset for segment in old[1:]]


def finish_swaps(files: Files, directory: str) -> None:
    """Delete what unfinished cleanings have left, and finish the swaps that were under way."""
    prefix = directory + "/"
    names = [path for path in files.paths(prefix) if path.endswith((CLEANED, SWAP))]
    if not names:
        return
    cleaned = [path for path in names if path.endswith(CLEANED)]
    lowest = min([_base_offset(path, prefix) for path in cleaned], default=None)
    for path in names:
        if path in cleaned or (lowest is not None and _base_offset(path, prefix) >= lowest):
            files.delete(path)
    swaps = [path for path in names if files.exists(path)]
    ranges = [_offsets(files, path, prefix) for path in swaps if path.endswith(".log" + SWAP)]
    if ranges:
        low, high = min(ranges)[0], max([end for _, end in ranges])
        for path in files.paths(prefix):
            offset = _base_offset(path, prefix)
            if path not in swaps and low <= offset < high:
                files.delete(path)
    for path in swaps:
        files.rename(path, path[: -len(SWAP)])


def _base_offset(path: str, prefix: str) -> int:
    """Return the offset in a file's name, −1 without one."""
    name = path[len(prefix) :].partition(".")[0]
    return int(name) if name.isdigit() else -1


def _offsets(files: Files, path: str, prefix: str) -> tuple[int, int]:
    """Return the base offset of a segment's file and the offset after its last batch."""
    base = _base_offset(path, prefix)
    batches = [item for item in files.read(path) if isinstance(item, RecordBatch)]
    return base, batches[-1].last_offset + 1 if batches else base
