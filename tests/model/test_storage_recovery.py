"""Start after a clean and an unclean stop, and retention (LogLoader; KAFKA.md, 5, 8.6)."""

from __future__ import annotations

import pytest

from kafkasim.model.facts import LogStart
from kafkasim.model.storage.files import Corrupt, MemoryFiles
from kafkasim.model.storage.log import retention
from kafkasim.model.storage.log.segment import CorruptBatch, corrupted
from kafkasim.model.storage.rules import StorageRules
from tests.model.storage_support import at, batch, config, fill, flushed, make_log, record_ids

SMALL = config(segment_bytes=200)


def stopped(count: int = 5) -> MemoryFiles:
    """The files of a log of two batches a segment, the later half under epoch 2."""
    files = MemoryFiles()
    log = make_log(files, SMALL)
    fill(log, count // 2, epoch=1)
    fill(log, count - count // 2, epoch=2)
    return files


def damage(files: MemoryFiles, path: str, index: int) -> None:
    items = files.read(path)
    files.truncate(path, 0)
    for number, item in enumerate(items):
        files.append(path, Corrupt(item) if number == index else item, 100)


def test_clean_start_trusts_the_files() -> None:
    log = make_log(stopped(), SMALL, high_watermark=4, recovery_point=2)
    assert [offset for offset, _ in record_ids(log)] == [0, 1, 2, 3, 4]
    assert (log.high_watermark, log.log_end_offset, log.recovery_point) == (4, 5, 5)
    assert log.epochs.entries == [(1, 0), (2, 2)]


def test_clean_start_serves_bit_rot() -> None:
    files = stopped()
    damage(files, "orders-0/00000000000000000002.log", 0)
    log = make_log(files, SMALL)
    assert log.read(2, 1000, 5) == (corrupted(at(2, 2, 2)), at(3, 2, 3))
    assert isinstance(log.read(2, 1000, 5)[0], CorruptBatch)


def test_unclean_start_keeps_an_intact_log_and_its_recovery_point() -> None:
    log = make_log(stopped(), SMALL, clean=False, recovery_point=2, high_watermark=9)
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (5, 2, 5)


def test_unclean_start_cuts_at_the_first_damaged_batch() -> None:
    files = stopped(7)
    damage(files, "orders-0/00000000000000000002.log", 1)
    log = make_log(files, SMALL, clean=False, recovery_point=2, high_watermark=6)
    assert [offset for offset, _ in record_ids(log)] == [0, 1, 2]
    assert (log.log_end_offset, log.recovery_point, log.high_watermark) == (3, 2, 3)
    assert log.epochs.entries == [(1, 0)]
    assert [path for path in files.paths("") if path.endswith(".log")] == [
        "orders-0/00000000000000000000.log",
        "orders-0/00000000000000000002.log",
    ]
    assert make_log(files, SMALL).log_end_offset == 3


def test_damage_below_the_recovery_point_is_not_seen() -> None:
    files = stopped(7)
    damage(files, "orders-0/00000000000000000000.log", 1)
    log = make_log(files, SMALL, clean=False, recovery_point=4)
    assert log.log_end_offset == 7


def test_recovery_point_never_lies_above_the_end() -> None:
    """KAFKA-10101 (B75)."""
    files = stopped(4)
    damage(files, "orders-0/00000000000000000002.log", 1)
    log = make_log(files, SMALL, clean=False, recovery_point=4)
    assert (log.log_end_offset, log.recovery_point) == (3, 3)


def test_recovery_finds_epochs_that_the_checkpoint_lost() -> None:
    files = stopped()
    files.delete("orders-0/leader-epoch-checkpoint")
    log = make_log(files, SMALL, clean=False)
    assert log.epochs.entries == [(1, 0), (2, 2)]


def test_recovery_drops_epochs_beyond_the_end_and_before_the_start() -> None:
    files = stopped()
    make_log(files, SMALL).epochs.assign(7, 5)
    log = make_log(files, SMALL, clean=False, log_start_offset=3, high_watermark=4)
    assert log.epochs.entries == [(2, 3)]
    assert log.log_start_offset == 3


@pytest.mark.parametrize("suffix", [".index", ".timeindex"])
@pytest.mark.parametrize("clean", [True, False])
def test_missing_index_is_rebuilt(suffix: str, clean: bool) -> None:
    files = MemoryFiles()
    settings = config(index_interval_bytes=100)
    fill(make_log(files, settings), 5)
    path = "orders-0/00000000000000000000" + suffix
    before = files.read(path)
    assert before
    files.delete(path)
    make_log(files, settings, clean=clean)
    assert files.read(path) == before


def test_segment_behind_a_gap_is_what_a_power_loss_left() -> None:
    files = stopped(6)
    files.truncate("orders-0/00000000000000000002.log", 1)
    assert make_log(files, SMALL, clean=False).log_end_offset == 3


@pytest.mark.parametrize("tail", [(), (0,), (0, 1, 2)])
def test_a_segment_that_comes_back_from_before_the_log_start_takes_nothing(
    tail: tuple[int, ...],
) -> None:
    """It was deleted, and the power loss left another tail of it than there was."""
    files, path = stopped(), "orders-0/00000000000000000000.log"
    files.truncate(path, 0)
    for offset in tail:
        files.append(path, at(offset, 1, offset), 100)
    log = make_log(files, SMALL, clean=False, recovery_point=2, log_start_offset=2)
    assert [offset for offset, _ in record_ids(log) if offset >= 2] == [2, 3, 4]
    assert (log.log_start_offset, log.log_end_offset) == (2, 5)
    assert files.exists(path) is (len(tail) < 3)


def test_compacted_log_may_have_gaps_between_segments() -> None:
    files = stopped(6)
    files.truncate("orders-0/00000000000000000002.log", 1)
    compacted = SMALL.with_properties({"cleanup.policy": "compact"})
    assert make_log(files, compacted, clean=False).log_end_offset == 6


def test_segment_that_overlaps_or_has_an_older_epoch_is_dropped() -> None:
    files = stopped(4)
    files.append("orders-0/00000000000000000002.log", at(4, 2, 4, 5), 139)
    files.append("orders-0/00000000000000000005.log", at(5, 2, 5), 100)
    assert make_log(files, SMALL, clean=False).log_end_offset == 6
    files.append("orders-0/00000000000000000002.log", at(6, 1, 6), 100)
    assert make_log(files, SMALL, clean=False).log_end_offset == 6


def test_log_that_ends_below_its_start_is_emptied() -> None:
    log = make_log(stopped(), SMALL, log_start_offset=8, high_watermark=9)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (8, 8, 8)
    assert (record_ids(log), log.epochs.entries) == ([], [])


def test_empty_active_segment_keeps_the_end() -> None:
    files = MemoryFiles()
    make_log(files).truncate_fully_and_start_at(40)
    log = make_log(files, clean=False)
    assert (log.log_start_offset, log.log_end_offset) == (40, 40)


def test_torn_creation_of_a_segment_is_an_empty_segment() -> None:
    files = MemoryFiles()
    for torn in (None, Corrupt(None)):
        files.delete("orders-0/00000000000000000000.log")
        files.append("orders-0/00000000000000000000.log", torn, 0)
        assert make_log(files, clean=False).log_end_offset == 0
    assert files.count("orders-0/00000000000000000000.log") == 0


# ------------------------------------------------------------------------------------- retention


def test_retention_by_time_stops_at_the_high_watermark() -> None:
    log = make_log(settings=config(segment_bytes=200, retention_ms=1000))
    fill(log, 7, epoch=1, timestamp=100)
    log.update_high_watermark(5)
    log.out.clear()
    assert log.delete_old_segments(1100) == 0
    assert log.delete_old_segments(1101) == 2
    assert (log.log_start_offset, log.log_end_offset) == (4, 7)
    assert log.epochs.entries == [(1, 4)]
    assert [effect for effect in log.out if isinstance(effect, LogStart)] == [
        LogStart("topic-id", 0, 4, "retention", 5, 7, "retention.ms")
    ]


def test_retention_above_the_high_watermark_is_a_variant() -> None:
    """KAFKA-5634 (B81)."""

    class Unbounded(StorageRules):
        def retention_bound(self, high_watermark: int, log_end_offset: int) -> int:
            return log_end_offset

    log = make_log(settings=config(segment_bytes=200, retention_ms=1000), rules=Unbounded())
    fill(log, 4, timestamp=100)
    assert log.delete_old_segments(5000) == 2
    assert log.log_start_offset == 4


def test_retention_rolls_the_active_segment_when_all_is_due() -> None:
    files = MemoryFiles()
    log = make_log(files, config(segment_bytes=200, retention_ms=1000))
    fill(log, 3, timestamp=100)
    log.update_high_watermark(3)
    assert log.delete_old_segments(5000) == 2
    assert (log.log_start_offset, log.log_end_offset, record_ids(log)) == (3, 3, [])
    assert log.delete_old_segments(5000) == 0
    assert make_log(files, log_start_offset=3, clean=False).log_end_offset == 3


def test_retention_by_size_keeps_at_least_that_much() -> None:
    log = make_log(settings=config(segment_bytes=200, retention_bytes=350, retention_ms=-1))
    fill(log, 7)
    log.update_high_watermark(7)
    assert log.delete_old_segments(0) == 1
    assert (log.size, log.log_start_offset) == (500, 2)


def test_retention_by_log_start_works_for_compacted_logs_too() -> None:
    log = make_log(settings=config(segment_bytes=200, cleanup_policy="compact", retention_ms=1))
    log.append_as_follower([at(offset, 0, offset) for offset in range(2)])
    log.append_as_follower([at(offset, 0, offset) for offset in range(2, 4)])
    log.update_high_watermark(4)
    log.raise_log_start(3, "delete-records")
    assert log.delete_old_segments(10**9) == 1
    assert log.log_start_offset == 3


def test_snapshots_go_with_their_segments() -> None:
    log = make_log(settings=config(segment_bytes=200, retention_ms=1))
    for sequence in range(5):
        log.append_as_leader(batch(sequence, pid=1, sequence=sequence, timestamp=0), 0, 0)
    flushed(log)
    log.update_high_watermark(4)
    log.delete_old_segments(100)
    assert (log.log_start_offset, log.producers.snapshots) == (4, [4])


def test_the_active_segment_stays_when_all_its_records_are_deleted() -> None:
    """DeleteRecords up to the log end: only retention deletes a segment that none follows."""
    log = make_log(settings=config(segment_bytes=200))
    fill(log, 5)
    log.update_high_watermark(5)
    assert log.raise_log_start(5)
    assert log.delete_old_segments(0) == 2
    assert [segment.base_offset for segment in log.segments] == [4]
    assert (log.log_start_offset, log.size) == (5, 100)


def test_deletable_counts_whole_segments_below_the_bound() -> None:
    log = make_log(settings=config(segment_bytes=200))
    fill(log, 5)

    def count(bound: int, due: retention.Due | None = None) -> int:
        return retention.deletable(log.segments, log.log_end_offset, bound, due)

    assert [count(bound) for bound in (1, 2, 3, 4, 5)] == [0, 1, 1, 2, 2]
    assert count(5, lambda _segment: True) == 3
    assert count(5, retention.beyond_size(399)) == 1
    assert count(5, lambda segment: segment.base_offset != 2) == 1
