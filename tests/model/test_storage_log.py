"""The log: append, read, truncate, offsets (UnifiedLog, LocalLog; KAFKA.md, 1.4, 5, 9.3)."""

from __future__ import annotations

import pytest

from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import FinalReplica, LogStart
from kafkasim.model.records import Record, batch_of
from kafkasim.model.storage.files import DiskError, DiskFull, MemoryFiles
from kafkasim.model.storage.final_replica import final_replica
from kafkasim.model.storage.log.segment import corrupted
from kafkasim.model.storage.log.validation import AppendOrigin, AppendResult
from kafkasim.model.storage.rules import StorageRules
from tests.model.storage_support import (
    at,
    barriers,
    batch,
    config,
    fill,
    flushed,
    make_log,
    record_ids,
)


def test_leader_assigns_offsets_and_epoch() -> None:
    log = make_log()
    first = log.append_as_leader(batch(1, 2), 3, 0)
    second = log.append_as_leader(batch(3), 3, 0)
    assert (first, second) == (
        AppendResult(NONE, at(0, 3, 1, 2), 0, 1),
        AppendResult(NONE, at(2, 3, 3), 2, 2),
    )
    assert log.log_end_offset == 3


def test_first_batch_of_an_epoch_is_assigned_durably() -> None:
    log = make_log()
    fill(log, 2, epoch=4)
    assert log.epochs.entries == [(4, 0)]
    assert barriers(log) == [("orders-0/leader-epoch-checkpoint",)]


@pytest.mark.parametrize(
    ("sent", "error"),
    [
        (batch(*range(9)), Errors.MESSAGE_TOO_LARGE),
        (batch(1, 2, 3), Errors.RECORD_LIST_TOO_LARGE),
        (batch(), Errors.INVALID_RECORD),
        (batch(1, pid=5), Errors.INVALID_RECORD),
        (batch_of((Record(None, 1, 9, 0),), control=True), Errors.INVALID_RECORD),
        (corrupted(batch(1)), Errors.CORRUPT_MESSAGE),
    ],
)
def test_leader_refuses(sent: object, error: Errors) -> None:
    log = make_log(settings=config(max_message_bytes=200, segment_bytes=150))
    assert log.append_as_leader(sent, 0, 0) == AppendResult(error, None, -1, -1)  # type: ignore[arg-type]
    assert (log.log_end_offset, record_ids(log)) == (0, [])


def test_a_coordinators_batch_obeys_max_message_bytes() -> None:
    """UnifiedLog.analyzeAndValidateRecords: only a Raft leader's own batches may be larger."""
    log = make_log(settings=config(max_message_bytes=200))
    large = batch(*range(9))
    refused = AppendResult(Errors.MESSAGE_TOO_LARGE, None, -1, -1)
    assert log.append_as_leader(large, 0, 0, AppendOrigin.COORDINATOR) == refused
    assert log.append_as_leader(large, 0, 0, AppendOrigin.RAFT_LEADER).error is NONE


def test_compacted_topic_refuses_null_keys() -> None:
    log = make_log(settings=config(cleanup_policy="compact"))
    keyed = batch_of((Record("k", 1, 20, 0),))
    assert log.append_as_leader(batch(1), 0, 0).error is Errors.INVALID_RECORD
    assert log.append_as_leader(keyed, 0, 0).error is NONE


def test_raft_appends_control_batches_of_any_size() -> None:
    log = make_log(settings=config(max_message_bytes=0))
    control = batch_of((Record(None, "leader-change", 20, 0),), control=True)
    assert log.append_as_leader(control, 1, 0, AppendOrigin.RAFT_LEADER).error is NONE


def test_log_append_time_replaces_timestamps() -> None:
    log = make_log(settings=config(message_timestamp_type="LogAppendTime"))
    result = log.append_as_leader(batch(1, timestamp=5), 0, 777)
    assert (result.batch, result.log_append_time_ms) == (at(0, 0, 1, timestamp=777), 777)


def test_follower_keeps_offsets_epochs_and_gaps() -> None:
    log = make_log()
    sent = (at(0, 1, 10), at(5, 2, 15))
    assert log.append_as_follower(sent) == AppendResult(NONE, sent[1], 0, 5)
    assert (log.log_end_offset, log.epochs.entries) == (6, [(1, 0), (2, 5)])
    assert log.read(1, 1000, 6) == (sent[1],)


def test_follower_refuses_what_lies_below_its_end() -> None:
    log = make_log()
    fill(log, 3)
    assert log.append_as_follower((at(2, 0, 2),)).error is Errors.UNKNOWN_SERVER_ERROR
    assert log.append_as_follower((at(3, 0, 3), at(3, 0, 3))).error is Errors.UNKNOWN_SERVER_ERROR
    assert record_ids(log) == [(0, 0), (1, 1), (2, 2)]


def test_follower_refuses_a_corrupt_batch_with_all_that_came_along() -> None:
    log = make_log()
    sent = (at(0, 0, 0), corrupted(at(1, 0, 1)))
    assert log.append_as_follower(sent).error is Errors.CORRUPT_MESSAGE
    assert record_ids(log) == []


def test_follower_leaves_out_newer_epochs_and_all_behind_them() -> None:
    log = make_log()
    sent = (at(0, 1, 0), at(1, 2, 1), at(2, 1, 2))
    assert log.append_as_follower(sent, 1) == AppendResult(NONE, sent[0], 0, 0)
    assert log.append_as_follower(sent[1:], 1) == AppendResult(NONE, None, -1, -1)


def test_empty_follower_restarts_at_a_batch_that_straddles_its_start() -> None:
    log = make_log(log_start_offset=5)
    assert log.append_as_follower((at(3, 0, 3, 4, 5),)).error is NONE
    assert (log.log_start_offset, log.log_end_offset) == (3, 6)
    assert [effect for effect in log.out if isinstance(effect, LogStart)] == [
        LogStart("topic-id", 0, 3, "reset", 3, 3)
    ]


def test_read_starts_at_the_batch_that_contains_the_offset() -> None:
    log = make_log()
    for first in (0, 3, 6):
        log.append_as_leader(batch(first, first + 1, first + 2), 0, 0)
    sizes = log.segments[0].batches[0].size

    def bases(*args: int, min_one: bool = True) -> list[int]:
        return [found.base_offset for found in log.read(*args, min_one=min_one)]

    assert bases(4, 10_000, 9) == [3, 6]
    assert bases(4, 10_000, 8) == [3]
    assert bases(0, 2 * sizes, 9) == [0, 3]
    assert bases(0, 2 * sizes - 1, 9) == [0]
    assert bases(0, 1, 9) == [0]
    assert bases(0, 1, 9, min_one=False) == []
    assert bases(9, 1000, 9) == []


def test_read_stays_in_one_segment_and_skips_gaps() -> None:
    log = make_log(settings=config(segment_bytes=250))
    fill(log, 4)
    log.truncate_to(3)
    log.append_as_follower((at(7, 0, 7),))
    log.append_as_follower((at(9, 0, 9),))
    assert [segment.base_offset for segment in log.segments] == [0, 2, 9]
    assert [found.base_offset for found in log.read(0, 1000, 10)] == [0, 1]
    assert [found.base_offset for found in log.read(3, 1000, 10)] == [7]
    assert [found.base_offset for found in log.read(8, 1000, 10)] == [9]
    log.truncate_to(9)
    assert log.read(8, 1000, 10) == ()


@pytest.mark.parametrize(
    ("properties", "timestamps", "bases"),
    [
        ({"segment_bytes": 200}, [1, 1, 1, 1], [0, 2]),
        ({"segment_ms": 10}, [0, 10, 11, 12], [0, 2]),
        ({"segment_ms": 10}, [-1, -1, -1, -1], [0]),
        ({}, [1, 1, 1, 1], [0]),
    ],
)
def test_roll(properties: dict[str, int], timestamps: list[int], bases: list[int]) -> None:
    log = make_log(settings=config(**properties))
    for number, timestamp in enumerate(timestamps):
        log.append_as_leader(batch(number, timestamp=timestamp), 0, 100)
    assert [segment.base_offset for segment in log.segments] == bases


def test_roll_when_an_index_is_full_or_offsets_do_not_fit() -> None:
    log = make_log()
    fill(log, 1)
    log.segments[-1].index_full = True
    fill(log, 1)
    log.append_as_follower((at(2**31 + 5, 0, 1),))
    assert [segment.base_offset for segment in log.segments] == [0, 1, 2**31 + 5]


def test_roll_flushes_the_old_segment_and_advances_the_recovery_point() -> None:
    log = make_log(settings=config(segment_bytes=200))
    fill(log, 2)
    log.out.clear()
    fill(log, 1)
    assert [effect.files for effect in log.out if isinstance(effect, Flush)] == [
        (
            "orders-0/00000000000000000000.log",
            "orders-0/00000000000000000000.index",
            "orders-0/00000000000000000000.timeindex",
            "orders-0/00000000000000000002.snapshot",
        )
    ]
    assert log.recovery_point == 0
    flushed(log)
    assert log.recovery_point == 2


def test_flush_from_before_a_truncation_says_nothing() -> None:
    log = make_log()
    fill(log, 5)
    log.local.flush()
    log.truncate_to(2)
    fill(log, 3)
    flushed(log)
    assert log.recovery_point == 0


def test_failed_flush_goes_to_the_owner() -> None:
    log = make_log()
    fill(log, 1)
    log.local.flush()
    log.epochs.truncate_from_end(0)
    flushes = [effect for effect in log.out if isinstance(effect, Flush)]
    with pytest.raises(DiskError, match="EIO: orders-0"):
        flushes[0].handler("EIO", 0)
    failed: list[str] = []
    log.on_disk_error = lambda error: failed.append(error.reason)
    for effect in flushes:
        effect.handler("EIO", 0)
    assert failed == ["EIO", "EIO"]


def test_flush_messages_puts_a_barrier_behind_every_nth_message() -> None:
    log = make_log(settings=config(flush_messages=2))
    log.epochs.assign(0, 0)
    log.out.clear()
    fill(log, 3)
    assert [effect.files[0] for effect in log.out if isinstance(effect, Barrier)] == [
        "orders-0/00000000000000000000.log"
    ]


def test_flush_ms() -> None:
    log = make_log(settings=config(flush_ms=100))
    log.flush_if_due(100)
    fill(log, 1)
    log.flush_if_due(150)
    log.out.clear()
    log.flush_if_due(200)
    assert [type(effect) for effect in log.out] == [Flush]


def test_indexes_have_an_entry_per_interval() -> None:
    files = MemoryFiles()
    log = make_log(files, config(index_interval_bytes=150))
    fill(log, 3, timestamp=1)
    fill(log, 2, timestamp=2)
    assert files.read(log.segments[0].index_path) == [(2, 200), (4, 400)]
    assert files.read(log.segments[0].time_index_path) == [(1, 2), (2, 4)]


def test_truncate_cuts_segments_epochs_and_offsets() -> None:
    log = make_log(settings=config(segment_bytes=200))
    fill(log, 3, epoch=1)
    fill(log, 3, epoch=2)
    flushed(log)
    log.update_high_watermark(5)
    assert log.truncate_to(3)
    assert record_ids(log) == [(0, 0), (1, 1), (2, 2)]
    assert log.epochs.entries == [(1, 0)]
    assert (log.high_watermark, log.recovery_point, log.log_end_offset) == (3, 3, 3)


def test_truncate_inside_a_batch_cuts_it_whole() -> None:
    log = make_log()
    log.append_as_leader(batch(0, 1, 2), 0, 0)
    assert log.truncate_to(1)
    assert (record_ids(log), log.log_end_offset) == ([], 1)


def test_truncate_at_the_end_only_trims_the_epochs() -> None:
    """KAFKA-10706."""
    log = make_log()
    fill(log, 2, epoch=1)
    log.epochs.assign(3, 2)
    assert not log.truncate_to(2)
    assert (record_ids(log), log.epochs.entries) == ([(0, 0), (1, 1)], [(1, 0)])

    class Untrimmed(StorageRules):
        def trims_epochs_beyond_end(self) -> bool:
            return False

    log.rules = Untrimmed()
    log.epochs.assign(3, 2)
    assert not log.truncate_to(2)
    assert log.epochs.entries == [(1, 0), (3, 2)]


def test_truncate_below_the_log_start_lowers_it() -> None:
    log = make_log()
    fill(log, 5)
    log.update_high_watermark(5)
    assert log.raise_log_start(4)
    assert not log.raise_log_start(4)
    assert log.truncate_to(2)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (2, 2, 2)


def test_truncate_below_the_first_segment_starts_over() -> None:
    log = make_log(log_start_offset=10)
    fill(log, 2, epoch=1)
    assert log.truncate_to(7)
    assert (log.log_start_offset, log.high_watermark, log.log_end_offset) == (7, 7, 7)
    assert log.epochs.entries == []


def test_high_watermark_is_clamped_to_the_log() -> None:
    log = make_log(log_start_offset=3)
    fill(log, 3)
    moved = [log.update_high_watermark(offset) for offset in (1, 9, 9, 5, 0)]
    assert moved == [False, True, False, True, True]
    assert log.last_stable_offset == 3


def test_log_start_does_not_pass_the_high_watermark() -> None:
    log = make_log()
    fill(log, 2)
    with pytest.raises(AssertionError):
        log.raise_log_start(1)


def test_offset_for_timestamp() -> None:
    log = make_log(settings=config(segment_bytes=200))
    for timestamp in (10, 30, 20, 40):
        fill(log, 1, timestamp=timestamp)
    log.update_high_watermark(4)
    found = [
        log.local.offset_for_timestamp(timestamp, log.log_start_offset)
        for timestamp in (0, 11, 31, 41)
    ]
    assert found == [(10, 0), (30, 1), (40, 3), None]
    log.raise_log_start(2)
    assert log.local.offset_for_timestamp(0, log.log_start_offset) is None
    log.delete_old_segments(0)
    assert log.local.offset_for_timestamp(0, log.log_start_offset) == (20, 2)


def test_offset_for_timestamp_in_a_batch_with_an_older_record() -> None:
    log = make_log()
    records = (Record(None, 0, 9, 5), Record(None, 1, 9, 50))
    log.append_as_leader(batch_of(records), 0, 0)
    log.append_as_leader(batch(2, timestamp=7), 0, 0)
    assert log.local.offset_for_timestamp(6, log.log_start_offset) == (50, 1)


class Failing(MemoryFiles):
    """A disk on which appends to one kind of file fail."""

    suffix = "none"

    def append(self, path: str, item: object, size: int) -> None:
        if path.endswith(self.suffix):
            raise DiskFull(path, "No space left on device")
        super().append(path, item, size)


def test_disk_error_propagates_and_leaves_the_end_right() -> None:
    """KAFKA-10778: the end moves with the record write, whatever fails behind it."""
    files = Failing()
    log = make_log(files, config(index_interval_bytes=0))
    fill(log, 1)
    files.suffix = ".index"
    with pytest.raises(DiskFull):
        fill(log, 1)
    assert log.log_end_offset == 2
    files.suffix = ".log"
    with pytest.raises(DiskFull, match=r"No space left on device: orders-0/"):
        fill(log, 1)
    assert log.log_end_offset == 2


def test_ground_truth_is_the_whole_log() -> None:
    log = make_log()
    log.append_as_leader(batch(7, 8, pid=1, sequence=0), 2, 0)
    log.append_as_leader(batch_of((Record(None, "x", 9, 0),)), 3, 0, AppendOrigin.COORDINATOR)
    log.update_high_watermark(2)
    assert final_replica(log, True, 3) == FinalReplica(
        topic_id="topic-id",
        partition=0,
        leading=True,
        leader_epoch=3,
        log_start_offset=0,
        high_watermark=2,
        last_stable_offset=2,
        log_end_offset=3,
        epoch_starts=(2, 0, 3, 2),
        base_offsets=(0, 2),
        next_offsets=(2, 3),
        batch_epochs=(2, 3),
        producer_ids=(1, -1),
        base_sequences=(0, -1),
        record_counts=(2, 0),
        record_ids=(7, 8),
    )


def test_delete_leaves_nothing() -> None:
    files = MemoryFiles()
    log = make_log(files)
    fill(log, 3)
    log.delete()
    assert files.paths("") == []
