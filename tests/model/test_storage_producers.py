"""Idempotent producers on a replica (ProducerStateManager, ProducerAppendInfo; KAFKA.md, 4.3)."""

from __future__ import annotations

import pytest

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import MAX_SEQUENCE, EndTransactionMarker, end_transaction_marker
from kafkasim.model.storage.files import Corrupt, MemoryFiles
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.log.validation import AppendOrigin, AppendResult
from kafkasim.model.storage.rules import StorageRules
from tests.model.storage_support import batch, config, make_log


def send(
    log: UnifiedLog, sequence: int, count: int = 1, epoch: int = 0, pid: int = 5
) -> AppendResult:
    ids = range(log.log_end_offset, log.log_end_offset + count)
    return log.append_as_leader(batch(*ids, pid=pid, epoch=epoch, sequence=sequence), 0, 0)


def state(log: UnifiedLog) -> dict[int, tuple[int, tuple[tuple[int, int, int], ...]]]:
    """Per producer: epoch and (first sequence, last sequence, last offset) of its batches."""
    return {
        pid: (entry.epoch, tuple([known[:3] for known in entry.batches]))
        for pid, entry in log.producers.entries.items()
    }


def test_sequences_must_follow() -> None:
    log = make_log()
    errors = [send(log, sequence, 2).error for sequence in (0, 2, 5, 3, 4)]
    wrong = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert errors == [NONE, NONE, wrong, wrong, NONE]


def test_unknown_producer_may_start_anywhere() -> None:
    assert send(make_log(), 77).error is NONE


def test_retry_of_the_last_five_batches_is_a_duplicate() -> None:
    log = make_log()
    for sequence in range(0, 12, 2):
        send(log, sequence, 2)
    assert send(log, 2, 2) == AppendResult(NONE, None, 2, 3, True, 1000)
    assert send(log, 10, 2) == AppendResult(NONE, None, 10, 11, True, 1000)
    assert send(log, 0, 2).error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 10, 1).error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert log.log_end_offset == 12


class ForgetsWithTheRecords(StorageRules):
    """Before KIP-360 a producer was forgotten with the last of its records (B50)."""

    def forgets_producers_of_deleted_records(self) -> bool:
        return True


@pytest.mark.parametrize(("rules", "end"), [(StorageRules(), 2), (ForgetsWithTheRecords(), 4)])
def test_a_retry_after_its_records_were_deleted_is_a_duplicate(
    rules: StorageRules, end: int
) -> None:
    log = make_log(rules=rules)
    send(log, 0, 2)
    log.update_high_watermark(2)
    log.raise_log_start(2, "delete-records")
    send(log, 0, 2)
    assert log.log_end_offset == end


def test_epochs() -> None:
    log = make_log()
    send(log, 0, epoch=1)
    errors = [send(log, *args).error for args in ((1, 1, 0), (1, 1, 2), (0, 1, 2), (1, 1, 1))]
    assert errors == [
        Errors.INVALID_PRODUCER_EPOCH,
        Errors.OUT_OF_ORDER_SEQUENCE_NUMBER,
        NONE,
        Errors.INVALID_PRODUCER_EPOCH,
    ]
    assert state(log) == {5: (2, ((0, 0, 1),))}


def test_sequence_wraps() -> None:
    log = make_log()
    send(log, MAX_SEQUENCE - 1)
    assert send(log, MAX_SEQUENCE, 2).error is NONE
    assert state(log)[5][1][-1] == (MAX_SEQUENCE, 0, 2)
    assert send(log, MAX_SEQUENCE, 2).duplicate
    assert send(log, 1).error is NONE
    fresh = make_log()
    send(fresh, MAX_SEQUENCE)
    assert send(fresh, 0).error is NONE


def test_marker_alone_leaves_an_epoch_whose_next_sequence_is_zero() -> None:
    log = make_log()
    marker = end_transaction_marker(5, 1, EndTransactionMarker(False, 0), 0)
    assert log.append_as_leader(marker, 0, 0, AppendOrigin.COORDINATOR).error is NONE
    assert state(log) == {5: (1, ())}
    assert send(log, 3, epoch=1).error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
    assert send(log, 0, epoch=1).error is NONE


def test_coordinator_is_checked_by_epoch_only() -> None:
    log = make_log()
    send(log, 0, epoch=1)
    old = log.append_as_leader(batch(1, pid=5, epoch=0, sequence=1), 0, 0, AppendOrigin.COORDINATOR)
    gap = log.append_as_leader(batch(1, pid=5, epoch=1, sequence=9), 0, 0, AppendOrigin.COORDINATOR)
    assert (old.error, gap.error) == (Errors.INVALID_PRODUCER_EPOCH, NONE)


def test_follower_does_not_check_but_remembers() -> None:
    leader, follower = make_log(), make_log()
    for sequence in (4, 5, 6):
        send(leader, sequence)
    follower.append_as_follower(leader.read(1, 1000, 3))
    assert state(follower) == {5: (0, ((5, 5, 1), (6, 6, 2)))}


def test_expiry() -> None:
    log = make_log(producer_id_expiration_ms=100)
    log.append_as_leader(batch(0, pid=1, sequence=0, timestamp=0), 0, 0)
    log.append_as_leader(batch(1, pid=2, sequence=0, timestamp=50), 0, 50)
    log.producers.remove_expired(100)
    assert list(log.producers.entries) == [2]


def test_a_full_segment_is_rolled_before_the_producer_is_checked() -> None:
    """UnifiedLog.append: maybeRoll comes before analyzeAndValidateProducerState."""
    log = make_log(settings=config(segment_bytes=300))
    for sequence in range(3):
        send(log, sequence)
    assert send(log, 2).duplicate
    assert [segment.base_offset for segment in log.segments] == [0, 3]
    assert log.producers.snapshots == [3]


def test_truncation_rebuilds_the_state_from_snapshot_and_log() -> None:
    log = make_log(settings=config(segment_bytes=300))
    for sequence in range(8):
        send(log, sequence)
    assert log.producers.snapshots == [3, 6]
    log.truncate_to(5)
    assert log.producers.snapshots == [3]
    # The snapshot has the last batch alone.
    assert state(log) == {5: (0, tuple([(number, number, number) for number in (2, 3, 4)]))}
    log.truncate_to(1)
    assert state(log) == {5: (0, ((0, 0, 0),))}
    log.truncate_fully_and_start_at(0)
    assert state(log) == {}


@pytest.mark.parametrize(
    ("clean", "damage", "kept"),
    [
        (True, False, (7,)),  # the last batch of the newest snapshot
        (True, True, (5, 6, 7)),  # that of the one before, and what was written since
        (False, False, (3, 4, 5, 6, 7)),  # nothing was flushed, so all is scanned
        (False, True, (3, 4, 5, 6, 7)),
    ],
)
def test_state_survives_a_restart(clean: bool, damage: bool, kept: tuple[int, ...]) -> None:
    """A snapshot holds the last batch of each producer, not five (writeSnapshot)."""
    files = MemoryFiles()
    settings = config(segment_bytes=300)
    log = make_log(files, settings)
    for sequence in range(8):
        send(log, sequence)
    if clean:
        assert "orders-0/00000000000000000008.snapshot" in log.close_clean()
        assert "orders-0/00000000000000000008.snapshot" not in log.close_clean()
    if damage:
        newest = files.paths("orders-0/")[-1]
        for path in files.paths("orders-0/"):
            if path.endswith(".snapshot"):
                newest = path
        files.write(newest, Corrupt(None), 1)
    again = make_log(files, settings, clean=clean)
    assert state(again) == {5: (0, tuple([(number, number, number) for number in kept]))}
    assert send(again, 8).error is NONE


def test_snapshot_does_not_bring_expired_producers_back() -> None:
    files = MemoryFiles()
    log = make_log(files)
    send(log, 0)
    log.close_clean()
    assert state(make_log(files, now_ms=10**9)) == {}
