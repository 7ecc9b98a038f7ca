"""Transactions in one log: open ones, markers, the last stable offset and the transaction index
(ProducerStateManager, ProducerAppendInfo, TransactionIndex; KIP-98)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    batch_of,
    end_transaction_marker,
)
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.storage.log.transaction_index import AbortedTxn
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.log.validation import AppendOrigin, AppendResult
from kafkasim.model.storage.rules import StorageRules
from tests.model.storage_support import RECORD_BYTES, config, make_log

COORDINATOR = AppendOrigin.COORDINATOR


def data(pid: int, sequence: int, epoch: int = 0, timestamp: int = 0) -> RecordBatch:
    record = Record(None, sequence, RECORD_BYTES, timestamp)
    return batch_of(
        (record,),
        producer_id=pid,
        producer_epoch=epoch,
        base_sequence=sequence,
        transactional=True,
    )


def send(log: UnifiedLog, pid: int, sequence: int, epoch: int = 0) -> AppendResult:
    return log.append_as_leader(data(pid, sequence, epoch), 0, 0)


def end(
    log: UnifiedLog,
    pid: int,
    committed: bool = True,
    epoch: int = 0,
    coordinator_epoch: int = 0,
    version: int = 0,
    now: int = 0,
) -> Errors:
    value = EndTransactionMarker(committed, coordinator_epoch)
    marker = end_transaction_marker(pid, epoch, value, now)
    return log.append_as_leader(marker, 0, now, COORDINATOR, version).error


def transactions(log: UnifiedLog) -> dict[int, tuple[int, int, int]]:
    """Per producer: epoch, coordinator epoch, where its open transaction began."""
    return {
        pid: (entry.epoch, entry.coordinator_epoch, entry.txn_first_offset)
        for pid, entry in log.producers.entries.items()
    }


def offsets(log: UnifiedLog, high_watermark: int) -> tuple[int, int]:
    log.update_high_watermark(high_watermark)
    return log.high_watermark, log.last_stable_offset


def test_last_stable_offset_waits_for_the_marker_and_its_replication() -> None:
    log = make_log()
    log.append_as_leader(batch_of((Record(None, 0, 10, 0),)), 0, 0)
    send(log, 1, 0)
    send(log, 1, 1)
    assert offsets(log, 3) == (3, 1)
    assert end(log, 1) is NONE
    assert offsets(log, 3) == (3, 1)  # the marker is not replicated yet
    assert offsets(log, 4) == (4, 4)


def test_last_stable_offset_is_the_first_of_several_open_transactions() -> None:
    log = make_log()
    for pid in (1, 2, 3):
        send(log, pid, 0)
    seen = [offsets(log, 3)[1]]
    for pid in (2, 1, 3):
        end(log, pid)
        seen.append(offsets(log, log.log_end_offset)[1])
    assert seen == [0, 0, 2, 6]


def test_last_stable_offset_is_never_below_the_log_start() -> None:
    log = make_log()
    send(log, 1, 0)
    send(log, 2, 0)
    log.update_high_watermark(2)
    log.raise_log_start(1)
    assert log.last_stable_offset == 1


def test_marker_with_an_old_epoch_is_refused() -> None:
    log = make_log()
    send(log, 1, 0, epoch=3)
    assert end(log, 1, epoch=2) is Errors.INVALID_PRODUCER_EPOCH
    assert end(log, 1, epoch=4) is NONE  # a coordinator that fences raises the epoch first
    assert transactions(log) == {1: (4, 0, -1)}
    assert send(log, 1, 1, epoch=3).error is Errors.INVALID_PRODUCER_EPOCH


def test_marker_of_an_old_coordinator_is_refused() -> None:
    log = make_log()
    assert end(log, 1, coordinator_epoch=5) is NONE
    assert end(log, 1, coordinator_epoch=4) is Errors.TRANSACTION_COORDINATOR_FENCED
    assert end(log, 1, coordinator_epoch=5) is NONE
    assert transactions(log) == {1: (0, 5, -1)}


def test_late_marker_does_not_end_the_next_transaction_of_version_2() -> None:
    """KIP-1228: the marker of the transaction before has the epoch of this one."""
    log = make_log()
    send(log, 1, 0, epoch=0)
    assert end(log, 1, epoch=1, version=2) is NONE
    assert end(log, 1, epoch=1, version=2) is NONE  # a retry, with nothing open (KAFKA-19999)
    send(log, 1, 0, epoch=1)
    assert end(log, 1, epoch=1, version=2) is Errors.INVALID_PRODUCER_EPOCH
    assert end(log, 1, epoch=1, version=1) is NONE


def test_plain_batch_in_an_open_transaction_is_refused() -> None:
    log = make_log()
    send(log, 1, 0)
    record = Record(None, 1, RECORD_BYTES, 0)
    plain = batch_of((record,), producer_id=1, producer_epoch=0, base_sequence=1)
    assert log.append_as_leader(plain, 0, 0).error is Errors.INVALID_TXN_STATE
    end(log, 1)
    assert log.append_as_leader(plain, 0, 0).error is NONE


def test_client_may_not_write_markers() -> None:
    marker = end_transaction_marker(1, 0, EndTransactionMarker(True, 0), 0)
    assert make_log().append_as_leader(marker, 0, 0).error is Errors.INVALID_RECORD


def test_coordinator_writes_transactional_batches_without_sequences() -> None:
    log = make_log()
    offset_commit = batch_of(
        (Record("k", "v", 10, 0),), producer_id=1, producer_epoch=0, transactional=True
    )
    for _ in range(2):
        assert log.append_as_leader(offset_commit, 0, 0, COORDINATOR).error is NONE
    assert transactions(log) == {1: (0, -1, 0)}
    assert log.producers.entries[1].described().last_sequence == -1


def test_aborted_transactions_of_a_range() -> None:
    log = make_log()
    send(log, 1, 0)  # 0
    send(log, 2, 0)  # 1
    end(log, 1, committed=False)  # 2
    send(log, 3, 0)  # 3
    end(log, 2, committed=True)  # 4
    end(log, 3, committed=False)  # 5
    first, third = AbortedTxn(1, 0, 2, 1), AbortedTxn(3, 3, 5, 6)
    found = [log.local.aborted_transactions(*bounds) for bounds in ((0, 1), (0, 6), (3, 6), (0, 4))]
    assert found == [[first], [first, third], [third], [first, third]]


def small_segments(files: MemoryFiles, **checkpoints: Any) -> UnifiedLog:
    return make_log(files, config(segment_bytes=300, index_interval_bytes=1), **checkpoints)


def filled(files: MemoryFiles) -> UnifiedLog:
    """Three segments; producer 1 aborts in the second what it began in the first, producer 2
    aborts in the third, and producer 3's transaction stays open."""
    log = small_segments(files)
    for pid, sequence in ((1, 0), (2, 0), (3, 0), (1, 1)):
        send(log, pid, sequence)
    end(log, 1, committed=False)
    send(log, 2, 1)
    end(log, 2, committed=False)
    log.update_high_watermark(log.log_end_offset)
    return log


ABORTED = [AbortedTxn(1, 0, 4, 1), AbortedTxn(2, 1, 6, 2)]


def contents(log: UnifiedLog) -> tuple[Any, ...]:
    return (
        [segment.base_offset for segment in log.segments],
        log.local.aborted_transactions(0, log.log_end_offset),
        transactions(log),
        log.transactions.undecided,
        log.last_stable_offset,
    )


def test_index_stands_in_the_segment_of_the_marker() -> None:
    log = filled(MemoryFiles())
    assert [segment.transactions.entries for segment in log.segments] == [
        [],
        ABORTED[:1],
        ABORTED[1:],
    ]
    assert (log.last_stable_offset, log.transactions.undecided) == (2, {2: 3})


@pytest.mark.parametrize("clean", [True, False])
def test_restart_finds_open_and_aborted_transactions_again(clean: bool) -> None:
    files = MemoryFiles()
    before = filled(files)
    if clean:
        before.close_clean()
    # Without a clean stop the scan begins in the last segment, above a snapshot.
    after = small_segments(
        files, clean=clean, recovery_point=0 if clean else 6, high_watermark=before.high_watermark
    )
    assert contents(after) == contents(before)


def test_unclean_start_writes_every_index_again() -> None:
    files = MemoryFiles()
    before = filled(files)
    for segment in before.segments:
        segment.transactions.reset()
    after = small_segments(files, clean=False, high_watermark=before.high_watermark)
    assert after.local.aborted_transactions(0, 7) == ABORTED
    assert contents(after)[2:] == contents(before)[2:]


def test_clean_start_rebuilds_an_insane_index() -> None:
    files = MemoryFiles()
    before = filled(files)
    index = before.segments[2].transactions
    index.reset()
    index.append(AbortedTxn(9, 0, 1, 0))  # its marker is below the segment
    before.close_clean()
    assert small_segments(files).local.aborted_transactions(0, 7) == ABORTED


def test_truncation_takes_markers_back() -> None:
    log = filled(MemoryFiles())
    log.truncate_to(6)
    assert log.local.aborted_transactions(0, 6) == ABORTED[:1]
    assert (log.transactions.undecided, log.last_stable_offset) == ({1: 2, 2: 3}, 1)
    log.truncate_to(4)
    assert log.local.aborted_transactions(0, 4) == []
    assert log.transactions.undecided == {0: 1, 1: 2, 2: 3}
    log.truncate_fully_and_start_at(9)
    assert (log.transactions.undecided, log.last_stable_offset) == ({}, 9)


def test_deletion_takes_the_index_along() -> None:
    files = MemoryFiles()
    log = filled(files)
    assert len([path for path in files.paths("") if path.endswith(".txnindex")]) == 2
    log.raise_log_start(6)
    log.delete_old_segments(0)
    assert [path for path in files.paths("") if path.endswith(".txnindex")] == [
        "orders-0/00000000000000000006.txnindex"
    ]
    log.delete()
    assert files.paths("") == []


def test_follower_keeps_what_its_leader_keeps() -> None:
    leader, follower = filled(MemoryFiles()), small_segments(MemoryFiles())
    while follower.log_end_offset < leader.log_end_offset:
        follower.append_as_follower(
            leader.read(follower.log_end_offset, 1000, leader.log_end_offset)
        )
    follower.update_high_watermark(leader.high_watermark)
    assert contents(follower)[1:] == contents(leader)[1:]


def test_open_transaction_never_expires() -> None:
    files = MemoryFiles()
    log = make_log(files, producer_id_expiration_ms=100)
    send(log, 1, 0)
    send(log, 2, 0)
    end(log, 2)
    log.producers.remove_expired(100)
    assert transactions(log) == {1: (0, -1, 0)}
    log.close_clean()
    assert transactions(make_log(files, producer_id_expiration_ms=100, now_ms=500)) == {
        1: (0, -1, 0)
    }


@pytest.mark.parametrize(("replicated", "opened"), [(False, {1: (0, -1, 0)}), (True, {})])
def test_a_marker_that_is_cut_off_opens_its_transaction_again(
    replicated: bool, opened: dict[int, tuple[int, int, int]]
) -> None:
    """Although its producer has expired: only a log that knows nobody replays nothing, and a marker
    that waits for its replication is known (ProducerStateManager.isEmpty). The follower needs it to
    index the abort that it fetches from the next leader."""
    log = make_log(producer_id_expiration_ms=100)
    send(log, 1, 0)
    end(log, 1, committed=False)
    log.update_high_watermark(2 if replicated else 1)
    log.producers.remove_expired(100)
    assert transactions(log) == {}
    log.truncate_to(1, now_ms=100)
    assert transactions(log) == opened
    end(log, 1, committed=False, now=100)
    aborted = [AbortedTxn(1, 0, 1, 2)] if opened else []
    assert log.local.aborted_transactions(0, 2) == aborted


class ForgetsMarkers(StorageRules):
    """B49: only data counts as a sign of life."""

    def marker_refreshes_producer(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("rules", "error"),
    [(StorageRules(), Errors.TRANSACTION_COORDINATOR_FENCED), (ForgetsMarkers(), NONE)],
)
def test_marker_keeps_the_epoch_of_its_coordinator_alive(
    rules: StorageRules, error: Errors
) -> None:
    log = make_log(rules=rules, producer_id_expiration_ms=100)
    log.append_as_leader(data(1, 0, timestamp=0), 0, 0)
    assert end(log, 1, coordinator_epoch=5, now=90) is NONE
    log.producers.remove_expired(120)
    assert end(log, 1, coordinator_epoch=4, now=120) is error
