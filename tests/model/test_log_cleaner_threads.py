"""The cleaner threads of a broker (LogCleaner, LogCleanerManager)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.effects import Flush
from kafkasim.model.facts import Cleaned, CleaningFailed
from kafkasim.model.storage.checkpoints import CLEANER_CHECKPOINT, OffsetCheckpoint
from kafkasim.model.storage.log.segment import corrupted
from kafkasim.model.storage.log.unified_log import UnifiedLog
from tests.model.cleaner_support import append, compacted, content
from tests.model.replica_harness import TP, Node, Trio

THREAD = "kafka-log-cleaner-thread-0"
BACKOFF_US = 15_000_000


def dirty(count: int = 7) -> tuple[Node, UnifiedLog]:
    """A leader of a compacted topic that has records of one key in segments of two."""
    trio = Trio()
    trio.tell(1)
    node = trio.nodes[1]
    log = node.partition.log
    log.update_config(compacted())
    for number in range(count):
        append(log, ("a", number))
    node.out.clear()
    return node, log


def work(node: Node, now: int = 0) -> None:
    """Let the thread look for work."""
    node.replicas.logs.cleaner.start(now)
    run_timer(node, now)


def run_timer(node: Node, now: int) -> None:
    while (due := node.timers.pop_due(now)) is not None:
        key, sequence, _ = due
        node.timers.fire(key, sequence, now)


def flush(node: Node, error: str | None = None) -> tuple[str, ...]:
    """End the only flush that was asked for; return its files."""
    flushes = [effect for effect in node.out if isinstance(effect, Flush)]
    assert len(flushes) == 1, node.out
    node.out.remove(flushes[0])
    flushes[0].handler(error, 1)
    return flushes[0].files


def told(node: Node, kind: type) -> list[Any]:
    return [effect for effect in node.out if type(effect) is kind]


def test_a_thread_cleans_group_by_group_and_then_writes_the_checkpoint() -> None:
    node, log = dirty(5)
    work(node)
    assert content(log)[0] == (0, "a", 0)
    assert flush(node)[0] == f"{TP}/00000000000000000000.log.cleaned"
    assert content(log)[0] == (2, "a", 2)
    assert flush(node) == (f"{TP}/",)
    assert flush(node)[0] == f"{TP}/00000000000000000002.log.cleaned"
    assert flush(node) == (f"{TP}/",)
    assert content(log) == [(3, "a", 3), (4, "a", 4)]
    assert [(each.base_offset, each.next_offset, each.removed) for each in told(node, Cleaned)] == [
        (0, 2, (0, 2)), (2, 4, (2, 3)),
    ]  # fmt: skip
    assert flush(node) == (CLEANER_CHECKPOINT,)
    assert OffsetCheckpoint(node.files, CLEANER_CHECKPOINT).read() == {TP: 4}


def test_a_thread_without_work_rests() -> None:
    node, _ = dirty(2)
    work(node)
    assert (node.out, node.timers.deadline(THREAD)) == ([], BACKOFF_US)


def test_a_log_below_the_dirty_ratio_is_left_alone() -> None:
    node, log = dirty()
    log.update_config(compacted(min_cleanable_dirty_ratio=1.0))
    work(node)
    assert node.out == []


def test_a_truncation_aborts_the_cleaning_and_lowers_the_checkpoint() -> None:
    node, log = dirty()
    work(node)
    while node.timers.deadline(THREAD) is None:
        flush(node)
    node.out.clear()
    directory = node.replicas.logs.directories[0]
    assert directory.cleaner_points == {TP: 6}
    for number in range(7, 10):
        append(log, ("a", number))
    node.out.clear()
    run_timer(node, 2)
    node.partition.truncate_to(5, 0)
    assert directory.cleaner_points == {TP: 4}
    cleaned = [each for each in node.out if isinstance(each, Flush)]
    assert cleaned, node.out
    node.out.clear()
    cleaned[0].handler(None, 3)
    assert told(node, Cleaned) == []
    assert not [path for path in node.files.paths("") if path.endswith(".cleaned")]


def test_a_damaged_log_is_not_cleaned_again() -> None:
    node, log = dirty()
    log.segments[1].batches[0] = corrupted(log.segments[1].batches[0])
    work(node)
    assert [each.reason for each in told(node, CleaningFailed)] == [
        "the batch at offset 2 is corrupt"
    ]
    node.out.clear()
    run_timer(node, BACKOFF_US)
    assert (node.out, node.timers.deadline(THREAD)) == ([], 2 * BACKOFF_US)


def test_a_failed_flush_takes_the_directory_offline() -> None:
    node, log = dirty()
    work(node)
    flush(node, "Input/output error")
    assert [str(each) for each in node.failures] == [
        f"Input/output error: {TP}/00000000000000000000.log.cleaned"
    ]
    assert content(log)[0] == (0, "a", 0)


def test_the_deletion_of_a_log_aborts_its_cleaning() -> None:
    node, _ = dirty()
    work(node)
    node.replicas.logs.delete(node.partition, 1)
    node.out[0].handler(None, 1)
    assert not told(node, Cleaned)
    assert node.timers.armed(THREAD)


def test_without_log_cleaner_enable_nothing_is_cleaned() -> None:
    node, _ = dirty()
    settings = node.replicas.settings
    settings.current = settings.current.with_properties({"log.cleaner.enable": "false"})
    node.replicas.logs.cleaner.start(0)
    assert not node.timers.armed(THREAD)


def test_more_threads_are_started_when_the_setting_changes() -> None:
    node, _ = dirty(1)
    settings = node.replicas.settings
    work(node)
    settings.current = settings.current.with_properties({"log.cleaner.threads": 2})
    run_timer(node, BACKOFF_US)
    assert node.timers.armed("kafka-log-cleaner-thread-1")
    settings.current = settings.current.with_properties({"log.cleaner.threads": 1})
    run_timer(node, 2 * BACKOFF_US)
    assert not node.timers.armed("kafka-log-cleaner-thread-1")


def test_the_retention_of_compacted_logs_is_the_cleaners() -> None:
    node, log = dirty(3)
    log.update_config(compacted(cleanup_policy="compact,delete", retention_ms=1,
                                min_cleanable_dirty_ratio=1.0))  # fmt: skip
    work(node, 5_000_000)
    assert log.log_start_offset == 3
