"""What a cleaning keeps (Cleaner, CleanedTransactionMetadata; KAFKA.md, 5)."""

from __future__ import annotations

import pytest

from kafkasim.model.config import ConfigError, TopicConfig
from kafkasim.model.records import BATCH_OVERHEAD, RecordBatch, Tombstone, restamped_size
from kafkasim.model.storage.cleaner.cleanable import log_to_clean
from kafkasim.model.storage.cleaner.cleaner import Cleaning
from kafkasim.model.storage.cleaner.filter import LogCleaningError
from kafkasim.model.storage.cleaner.offset_map import OffsetMap
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.storage.log.segment import corrupted
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.bugs.truncation import TombstonesByTheirSegment
from tests.model.cleaner_support import (
    append,
    batches,
    clean,
    commit,
    compacted,
    content,
    keyed,
    marker,
)
from tests.model.storage_support import make_log


def three_keys(**properties: object) -> UnifiedLog:
    """Offsets 0 to 7 in four segments; the last one is active."""
    log = make_log(settings=compacted(**properties))
    for number, key in enumerate("abacbcab"):
        append(log, (key, number))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4, 6]
    return log


def test_the_last_record_of_each_key_stays_below_the_active_segment() -> None:
    log = three_keys()
    assert clean(log) == 6
    assert content(log) == [(2, "a", 2), (4, "b", 4), (5, "c", 5), (6, "a", 6), (7, "b", 7)]
    assert (log.log_start_offset, log.log_end_offset) == (0, 8)


def test_the_next_cleaning_puts_small_segments_together() -> None:
    log = three_keys()
    clean(log)
    assert [segment.size for segment in log.segments] == [0, 101, 202, 202]
    append(log, ("d", 8))
    clean(log, 6)
    assert [segment.base_offset for segment in log.segments] == [0, 4, 6, 8]
    assert content(log)[0] == (5, "c", 5)


def test_nothing_is_cleaned_above_the_high_watermark() -> None:
    """KAFKA-13194, B80: an uncommitted record replaces none."""
    log = make_log(settings=compacted())
    for number in range(4):
        log.append_as_leader(keyed(("a", number)), 0, 1000)
    log.roll(4)
    log.update_high_watermark(1)
    to_clean = log_to_clean(log, None, 1000)
    assert (to_clean.first_uncleanable_offset, to_clean.cleanable_bytes) == (0, 0)
    log.update_high_watermark(3)
    assert clean(log) == 2
    assert content(log) == [(1, "a", 1), (2, "a", 2), (3, "a", 3)]


class AboveTheHighWatermark(StorageRules):
    def cleanable_bound(self, last_stable_offset: int, active_base_offset: int) -> int:
        return active_base_offset


def test_without_the_bound_a_committed_record_gives_way_to_an_uncommitted_one() -> None:
    log = make_log(settings=compacted(), rules=AboveTheHighWatermark())
    for number in range(5):
        log.append_as_leader(keyed(("a", number)), 0, 1000)
    log.update_high_watermark(1)
    clean(log)
    assert content(log) == [(3, "a", 3), (4, "a", 4)]


def test_a_map_that_is_full_ends_the_cleaning_within_a_segment() -> None:
    log = three_keys()
    assert clean(log, slots=3) == 4  # offset 4 has a known key, but the map is full
    assert content(log)[:4] == [(1, "b", 1), (2, "a", 2), (3, "c", 3), (4, "b", 4)]
    assert clean(log, 4, slots=3) == 6
    assert content(log)[:3] == [(2, "a", 2), (4, "b", 4), (5, "c", 5)]


def test_a_full_map_may_end_within_a_batch() -> None:
    log = make_log(settings=compacted(segment_bytes=1000))
    append(log, ("a", 0), ("b", 1), ("c", 2), ("b", 3))
    append(log, ("a", 4), ("b", 5))
    log.roll(6)
    assert clean(log, slots=2) == 2
    assert [offset for offset, _, _ in content(log)] == [0, 1, 2, 3, 4, 5]
    assert clean(log, 2, slots=4) == 6
    assert content(log) == [(2, "c", 2), (4, "a", 4), (5, "b", 5)]
    assert batches(log) == [(0, 3, 1), (4, 5, 2)]


def test_a_tombstone_stays_until_its_horizon() -> None:
    """KIP-534: delete.retention.ms runs from the first cleaning that met it."""
    log = make_log(settings=compacted())
    for key, number in [("a", 1), ("a", -2), ("b", 3), ("c", 4), ("d", 5)]:
        append(log, (key, number))
    clean(log, now_ms=10_000)
    assert content(log)[0] == (1, "a", 2)
    assert type(content(log)[0][2]) is Tombstone
    assert log.segments[0].batches[0].delete_horizon_ms == 11_000
    for _ in range(2):
        append(log, ("d", 6))
    clean(log, 4, now_ms=10_999)
    assert content(log)[0] == (1, "a", 2)
    for _ in range(2):
        append(log, ("d", 7))
    clean(log, 6, now_ms=11_000)
    assert content(log)[0] == (2, "b", 3)


def test_a_cleaned_segment_tells_with_which_retention_it_was_made() -> None:
    log = make_log(settings=compacted())
    for number in range(3):
        append(log, ("a", number))
    cleaning = Cleaning(log_to_clean(log, None, 10_000), OffsetMap(1000), 1.0, 10_000)
    cleaned = cleaning.write_group()
    log.update_config(compacted(delete_retention_ms=5))
    assert cleaned.delete_retention_ms == 1000


@pytest.mark.parametrize(("segment_bytes", "stays"), [(210, False), (10_000, True)])
def test_without_a_horizon_a_tombstone_goes_by_the_time_of_its_segment(
    segment_bytes: int, stays: bool
) -> None:
    """B88: at once, where it was old before it was met; B89: never, where segments are merged."""
    log = make_log(
        settings=compacted(segment_bytes=segment_bytes), rules=TombstonesByTheirSegment()
    )
    for at_ms, pair in enumerate([("a", -2), ("b", 3), ("c", 4), ("d", 5)], 1):
        append(log, pair, at_ms=1000 * at_ms)
    log.roll(4)
    clean(log, now_ms=10_000)
    append(log, ("e", 6), at_ms=5000)
    log.roll(5)
    clean(log, 4, now_ms=10_001 if not stays else 10_000_000)
    assert (content(log)[0] == (0, "a", 2)) == stays


def test_a_delete_horizon_makes_the_records_of_its_batch_longer() -> None:
    """The batch counts its timestamps from the horizon (MemoryRecordsBuilder)."""
    log = make_log(settings=compacted())
    for key, number in [("a", -1), ("b", 2), ("c", 3)]:
        append(log, (key, number))
    clean(log)
    first = log.segments[0].batches[0]
    assert (first.size, first.max_timestamp_ms) == (BATCH_OVERHEAD + 42, 1000)
    assert log.segments[0].size == BATCH_OVERHEAD + 42 + 101


def test_restamped_size() -> None:
    assert [restamped_size(40, 0, delta) for delta in (0, 63, 64, -10_000)] == [40, 40, 41, 42]
    assert restamped_size(64, 0, 64) == 66  # the length takes a second byte, too


def test_a_null_key_is_removed() -> None:
    """Records of a time before the topic was compacted."""
    log = make_log(settings=TopicConfig(segment_bytes=210, message_timestamp_after_max_ms=2**62))
    for number in range(3):
        append(log, (None, number))  # type: ignore[arg-type]
    log.update_config(compacted())
    clean(log)
    assert content(log) == [(2, None, 2)]


def test_the_last_batch_below_the_bound_stays_as_a_header() -> None:
    """KAFKA-17076: an offset that was in the log is not forgotten."""
    log = make_log(settings=compacted())
    commit(log, keyed(("a", 0), producer_id=7, producer_epoch=0, base_sequence=0))
    append(log, ("b", 1))
    commit(log, keyed(("a", 2), producer_id=7, producer_epoch=0, base_sequence=1))
    commit(log, keyed(("a", 3), producer_id=7, producer_epoch=0, base_sequence=2))
    append(log, ("a", 4))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 4]
    clean(log)
    assert batches(log) == [(1, 1, 1), (3, 3, 1), (4, 4, 1)]
    log.roll(5)
    append(log, ("a", 5))
    clean(log, 4)
    assert batches(log) == [(1, 1, 1), (3, 3, 0), (4, 4, 1), (5, 5, 1)]


def test_the_state_of_a_producer_survives_the_loss_of_its_records() -> None:
    """KAFKA-5490: its last batch keeps the sequence number, with no record in it."""
    files = MemoryFiles()
    log = make_log(files, compacted())
    for sequence in range(2):
        commit(log, keyed(("a", sequence), producer_id=7, producer_epoch=0, base_sequence=sequence))
    for number in range(2, 7):
        append(log, ("a", number))
    clean(log)
    assert batches(log)[:2] == [(1, 1, 0), (5, 5, 1)]
    for path in files.paths(""):
        if path.endswith(".snapshot"):
            files.delete(path)
    loaded = make_log(files, compacted(), clean=False, high_watermark=7)
    assert loaded.producers.entries[7].batches == [(1, 1, 1, 0, 1000)]


def transaction(log: UnifiedLog, producer: int, *pairs: tuple[str, int]) -> None:
    commit(log, keyed(*pairs, producer_id=producer, producer_epoch=0, transactional=True))


def test_aborted_records_go_at_once_and_their_marker_behind_its_horizon() -> None:
    log = make_log(settings=compacted(segment_bytes=1000))
    append(log, ("a", 0))
    transaction(log, 1, ("a", 1))
    marker(log, 1, committed=False)
    transaction(log, 1, ("b", 3))
    marker(log, 1, committed=True)
    log.roll(5)
    assert clean(log, now_ms=1000) == 5
    assert content(log) == [(0, "a", 0), (3, "b", 3)]
    assert batches(log) == [(0, 0, 1), (2, 2, 1), (3, 3, 1), (4, 4, 1)]
    assert [entry.first_offset for entry in log.segments[0].transactions.entries] == [1]
    append(log, ("c", 5))
    log.roll(6)
    clean(log, 5, now_ms=1500)  # the marker's transaction is empty now: its horizon is 2500
    assert log.segments[0].transactions.entries == []
    assert [each.delete_horizon_ms for each in log.segments[0].batches] == [-1, 2500, -1, -1, -1]
    append(log, ("c", 6))
    log.roll(7)
    clean(log, 6, now_ms=2500)
    assert batches(log) == [(0, 0, 1), (3, 3, 1), (4, 4, 1), (6, 6, 1)]


def test_a_marker_stays_while_its_transaction_has_a_record() -> None:
    log = make_log(settings=compacted(segment_bytes=1000))
    transaction(log, 1, ("a", 0))
    marker(log, 1, committed=True)
    append(log, ("b", 2))
    log.roll(3)
    for now_ms in (1000, 5000, 9000):
        clean(log, now_ms=now_ms)
    assert batches(log) == [(0, 0, 1), (1, 1, 1), (2, 2, 1)]
    assert [each.delete_horizon_ms for each in log.segments[0].batches] == [-1, -1, -1]


def test_a_segment_that_is_cleaned_in_part_keeps_its_aborted_transactions() -> None:
    """KAFKA-13727, B55: the upper part is copied, and its index with it."""
    log = make_log(settings=compacted(segment_bytes=1000))
    append(log, ("a", 0))
    append(log, ("b", 1))
    append(log, ("c", 2))
    transaction(log, 1, ("d", 3))
    marker(log, 1, committed=False)
    log.roll(5)
    assert clean(log, slots=2) == 2
    entries = log.local.aborted_transactions(0, 5)
    assert [(entry.first_offset, entry.last_offset) for entry in entries] == [(3, 4)]


class UpToTheMap(StorageRules):
    def aborted_transactions_bound(self, segment_end: int, map_end: int) -> int:
        return map_end


def test_with_the_index_of_the_mapped_part_only_the_marker_has_no_entry() -> None:
    log = make_log(settings=compacted(segment_bytes=1000), rules=UpToTheMap())
    append(log, ("a", 0))
    append(log, ("b", 1))
    append(log, ("c", 2))
    transaction(log, 1, ("d", 3))
    marker(log, 1, committed=False)
    log.roll(5)
    clean(log, slots=2)
    assert (3, "d", 3) in content(log)
    assert log.local.aborted_transactions(0, 5) == []


def test_an_open_transaction_bounds_the_cleaning() -> None:
    log = make_log(settings=compacted())
    append(log, ("a", 0))
    transaction(log, 1, ("a", 1))
    append(log, ("a", 2))
    append(log, ("a", 3))
    append(log, ("a", 4))
    assert log_to_clean(log, None, 1000).first_uncleanable_offset == 0
    marker(log, 1, committed=True)
    assert log_to_clean(log, None, 1000).first_uncleanable_offset == 4


def test_min_compaction_lag_bounds_the_cleaning() -> None:
    log = make_log(settings=compacted(min_compaction_lag_ms=500))
    for number in range(7):
        append(log, ("a", number), at_ms=1000 + 100 * number)
    assert log_to_clean(log, None, 1900).first_uncleanable_offset == 4
    assert log_to_clean(log, None, 5000).first_uncleanable_offset == 6


def test_max_compaction_lag_makes_a_log_due_at_any_ratio() -> None:
    log = make_log(settings=compacted(max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0))
    for number in range(5):
        append(log, ("a", number))
    assert not log_to_clean(log, None, 1500).due
    late = log_to_clean(log, None, 1501)
    assert (late.due, late.compaction_delay_ms) == (True, 1)
    assert not log_to_clean(log, 4, 9000).due


def test_max_compaction_lag_rolls_segments() -> None:
    """KIP-354: LogConfig.maxSegmentMs."""
    assert compacted(max_compaction_lag_ms=500).max_segment_ms == 500
    assert TopicConfig(max_compaction_lag_ms=500).max_segment_ms == 604800000


def test_the_lags_must_not_contradict_each_other() -> None:
    with pytest.raises(ConfigError, match=r"min.compaction.lag.ms: 6 is above"):
        TopicConfig(min_compaction_lag_ms=6, max_compaction_lag_ms=5)


def test_a_log_is_due_above_the_dirty_ratio() -> None:
    log = three_keys()
    assert log_to_clean(log, 2, 1000).cleanable_ratio == pytest.approx(2 / 3)
    assert [log_to_clean(log, dirty, 1000).due for dirty in (0, 2, 4)] == [True, True, False]


@pytest.mark.parametrize(("checkpoint", "log_start"), [(1, 2), (9, 0)])
def test_a_checkpoint_outside_the_log_starts_again_at_the_log_start(
    checkpoint: int, log_start: int
) -> None:
    log = three_keys()
    log.raise_log_start(log_start)
    found = log_to_clean(log, checkpoint, 1000)
    assert (found.first_dirty_offset, found.checkpoint_invalid) == (log_start, True)


def test_a_damaged_batch_cannot_be_cleaned() -> None:
    log = three_keys()
    segment = log.segments[1]
    segment.batches[0] = corrupted(segment.batches[0])
    with pytest.raises(LogCleaningError, match="offset 2 is corrupt"):
        clean(log)


def test_a_follower_copies_a_cleaned_log_as_it_is() -> None:
    leader = three_keys()
    clean(leader)
    follower = make_log(settings=compacted())
    found: list[RecordBatch] = list(leader.batches_from(0))
    follower.append_as_follower(found, 0)
    follower.update_high_watermark(8)
    assert list(follower.batches_from(0)) == found
    assert (follower.log_start_offset, follower.log_end_offset) == (0, 8)


def test_a_truncation_into_a_cleaned_range_leaves_the_log_end_in_the_gap() -> None:
    log = three_keys()
    clean(log)
    log.truncate_to(4)
    assert (content(log), log.log_end_offset) == ([(2, "a", 2)], 4)
    append(log, ("z", 9))
    assert content(log) == [(2, "a", 2), (4, "z", 9)]
    log.truncate_to(1)
    assert (content(log), log.log_end_offset) == ([], 1)


def test_keys_of_internal_topics_need_no_hash() -> None:
    """In a run values are plain dataclasses, which have none."""
    log = make_log(settings=compacted())
    for number, key in enumerate((["a"], ["b"], ["a"], ["b"], ["a"])):
        append(log, (key, number))  # type: ignore[arg-type]
    clean(log)
    assert content(log) == [(2, ["a"], 2), (3, ["b"], 3), (4, ["a"], 4)]


def test_a_read_passes_segments_of_which_nothing_is_left() -> None:
    """LocalLog.read tries segment after segment; a search found a coordinator that stopped here."""
    log = make_log(settings=compacted())
    for number, key in enumerate("xyaaaab"):
        append(log, (key, number))
    clean(log)
    assert [(each.base_offset, len(each.batches)) for each in log.segments] == [
        (0, 2), (2, 0), (4, 1), (6, 1),
    ]  # fmt: skip
    assert [batch.base_offset for batch in log.read(2, 1000, 7)] == [5]
    assert [batch.base_offset for batch in log.read(6, 1000, 7)] == [6]
