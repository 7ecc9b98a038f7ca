"""The leader-epoch cache (LeaderEpochFileCache; KAFKA.md, 1.2) and checkpoint files."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.checkpoints import (
    MAX_ITEMS,
    CheckpointFile,
    OffsetCheckpoint,
    logs_on_disk,
    take_clean_marker,
    write_clean_marker,
)
from kafkasim.model.storage.files import FLUSH_POOL, Corrupt, MemoryFiles
from kafkasim.model.storage.log.epochs import LeaderEpochCache
from kafkasim.model.storage.log.unified_log import raise_disk_error
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.releases import Storage28
from tests.model.storage_support import TP, make_log


def cache(files: MemoryFiles | None = None, *entries: tuple[int, int]) -> LeaderEpochCache:
    made = LeaderEpochCache(files or MemoryFiles(), [], "epochs", StorageRules(), raise_disk_error)
    for entry in entries:
        made.assign(*entry)
    return made


@pytest.mark.parametrize(
    ("entry", "after"),
    [
        ((4, 20), [(2, 5), (4, 10)]),
        ((4, 10), [(2, 5), (4, 10)]),
        ((4, 8), [(2, 5), (4, 8)]),
        ((5, 12), [(2, 5), (4, 10), (5, 12)]),
        ((5, 10), [(2, 5), (5, 10)]),
        ((3, 12), [(2, 5), (3, 12)]),
        ((1, 3), [(1, 3)]),
    ],
)
def test_assign_keeps_both_columns_increasing(
    entry: tuple[int, int], after: list[tuple[int, int]]
) -> None:
    epochs = cache(None, (2, 5), (4, 10))
    epochs.assign(*entry)
    assert epochs.entries == after
    assert (epochs.latest_epoch, epochs.latest_start) == after[-1]


@pytest.mark.parametrize(
    ("epoch", "end"),
    [(-1, (-1, -1)), (1, (1, 5)), (2, (2, 10)), (3, (2, 10)), (4, (4, 33)), (5, (-1, -1))],
)
def test_end_offset_for(epoch: int, end: tuple[int, int]) -> None:
    assert cache(None, (2, 5), (4, 10)).end_offset_for(epoch, 33) == end


def test_epoch_for() -> None:
    epochs = cache(None, (2, 5), (4, 10))
    assert [epochs.epoch_for(offset) for offset in (4, 5, 9, 10, 99)] == [-1, 2, 2, 4, 4]


def test_truncations() -> None:
    def after(method: str, offset: int) -> list[tuple[int, int]]:
        epochs = cache(None, (2, 5), (4, 10), (6, 20))
        getattr(epochs, method)(offset)
        return epochs.entries

    assert [after("truncate_from_end", offset) for offset in (21, 20, 10, 0)] == [
        [(2, 5), (4, 10), (6, 20)],
        [(2, 5), (4, 10)],
        [(2, 5)],
        [],
    ]
    assert [after("truncate_from_start", offset) for offset in (4, 5, 7, 10, 30)] == [
        [(2, 5), (4, 10), (6, 20)],
        [(2, 5), (4, 10), (6, 20)],
        [(2, 7), (4, 10), (6, 20)],
        [(4, 10), (6, 20)],
        [(6, 30)],
    ]


def test_assign_is_synchronous_and_truncation_is_not() -> None:
    out: list[Any] = []
    epochs = LeaderEpochCache(MemoryFiles(), out, "epochs", StorageRules(), raise_disk_error)
    epochs.assign(1, 0)
    epochs.assign(1, 5)
    epochs.truncate_from_end(0)
    epochs.clear()
    assert [type(effect) for effect in out] == [Barrier, Flush]
    assert out[1].pool == FLUSH_POOL
    out[1].handler(None, 0)


def test_2_8_waits_for_a_truncated_cache() -> None:
    """Before KAFKA-15046, LeaderEpochFileCache.flush also synced what a truncation had left."""
    out: list[Any] = []
    epochs = LeaderEpochCache(MemoryFiles(), out, "epochs", Storage28(), raise_disk_error)
    epochs.assign(1, 0)
    epochs.assign(2, 5)
    epochs.truncate_from_end(5)
    epochs.truncate_from_start(3)
    epochs.clear()
    assert out == [Barrier(("epochs",))] * 5


def test_cache_survives_a_restart() -> None:
    files = MemoryFiles()
    cache(files, (2, 5), (4, 10)).truncate_from_end(10)
    assert cache(files).entries == [(2, 5)]


def test_unsynced_truncation_may_lose_everything() -> None:
    """KAFKA-16541 (B77): the variant overwrites the file in place."""

    class Unsynced(StorageRules):
        def syncs_truncated_epochs(self) -> bool:
            return False

    files = MemoryFiles()
    epochs = LeaderEpochCache(files, [], "epochs", Unsynced(), raise_disk_error)
    epochs.assign(1, 0)
    epochs.assign(2, 5)
    epochs.truncate_from_end(5)
    assert cache(files).entries == [(1, 0)]
    files.write("epochs", Corrupt(files.read("epochs")[0]), 1)
    assert cache(files).entries == []


def test_checkpoint_file_is_bounded_and_reads_the_last_intact_value() -> None:
    files = MemoryFiles()
    written = CheckpointFile(files, "file")
    for number in range(3 * MAX_ITEMS):
        written.write(number, 8)
    assert CheckpointFile(files, "file").read() == 3 * MAX_ITEMS - 1
    assert sum(files.count(path) for path in files.paths("")) == 2 * MAX_ITEMS
    last = files.read("file")
    files.write("file", last[0], 8)
    for item in last[1:-1]:
        files.append("file", item, 8)
    files.append("file", Corrupt(last[-1]), 8)
    again = CheckpointFile(files, "file")
    assert again.read() == 3 * MAX_ITEMS - 2
    again.write("new", 8)
    assert CheckpointFile(files, "file").read() == "new"
    again.delete()
    assert files.paths("") == []


def test_offset_checkpoint() -> None:
    files = MemoryFiles()
    assert OffsetCheckpoint(files, "hw").read() == {}
    offsets = {TopicPartition("a", 0): 5, TopicPartition("b", 1): 7}
    assert OffsetCheckpoint(files, "hw").write(offsets) == "hw"
    assert OffsetCheckpoint(files, "hw").read() == offsets


def test_clean_marker_is_taken_once() -> None:
    files = MemoryFiles()
    path = write_clean_marker(files, "data/", 9)
    assert [take_clean_marker(files, "data/") for _ in range(2)] == [9, None]
    files.write(path, Corrupt(9), 1)
    assert take_clean_marker(files, "data/") is None


def test_logs_on_disk() -> None:
    files = MemoryFiles()
    make_log(files)
    make_log(files)
    files.append("other-0/partition.metadata", Corrupt(None), 1)
    assert logs_on_disk(files, "") == [("orders-0", TP, "topic-id")]
