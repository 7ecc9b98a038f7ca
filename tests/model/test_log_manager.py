"""LogManager: what a power loss may find after a clean stop, a start or a truncation."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.facts import LogLoaded
from kafkasim.model.replication.logs.log_manager import LogManager
from kafkasim.model.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
)
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.rules import StorageRules
from tests.model.replica_harness import TP, Node, Trio

LOG = f"{TP}/00000000000000000000.log"


def closing() -> tuple[Node, list[DiskError | None]]:
    """A leader with one record whose clean close has begun."""
    trio = Trio()
    trio.tell(1)
    trio.produce(1, 5)
    node = trio.nodes[1]
    closed: list[DiskError | None] = []
    node.replicas.logs.close_clean(9, trio.now, lambda error, _now: closed.append(error))
    return node, closed


def flush(node: Node, error: str | None = None) -> tuple[str, ...]:
    """End the flush that was asked for; return its files."""
    effects: list[Any] = list(node.out)
    node.out.clear()
    flushes = [effect for effect in effects if isinstance(effect, Flush)]
    assert len(flushes) == 1, effects
    flushes[0].handler(error, 2_000_000)
    return flushes[0].files


def test_the_clean_marker_is_written_when_logs_and_checkpoints_are_durable() -> None:
    node, closed = closing()
    assert not node.files.exists(CLEAN_SHUTDOWN)
    assert LOG in flush(node)
    assert not node.files.exists(CLEAN_SHUTDOWN)
    assert OffsetCheckpoint(node.files, RECOVERY_POINT_CHECKPOINT).read() == {TP: 1}
    assert flush(node) == (
        RECOVERY_POINT_CHECKPOINT,
        LOG_START_CHECKPOINT,
        HIGH_WATERMARK_CHECKPOINT,
    )
    assert (node.files.read(CLEAN_SHUTDOWN), closed) == ([9], [])
    assert flush(node) == (CLEAN_SHUTDOWN,)
    assert (closed, node.out) == ([None], [])


def test_a_failed_flush_leaves_no_clean_marker() -> None:
    node, closed = closing()
    flush(node, "I/O error")
    assert [str(error) for error in closed] == ["I/O error: clean shutdown"]
    assert not node.files.exists(CLEAN_SHUTDOWN)
    assert node.out == []


def test_a_start_after_a_clean_stop_deletes_the_marker_durably_before_all_else() -> None:
    node, _ = closing()
    for _ in range(3):
        flush(node)
    manager = LogManager(node, node.replicas.settings, StorageRules(), {})
    assert (manager.clean_epoch, node.out) == (9, [Barrier((CLEAN_SHUTDOWN,))])
    node.out.clear()
    assert LogManager(node, node.replicas.settings, StorageRules(), {}).clean_epoch is None
    assert node.out == []


def loaded(node: Node) -> list[tuple[int, bool]]:
    """Return the log ends of what was loaded, and whether it was taken for clean."""
    return [(fact.log_end_offset, fact.clean) for fact in node.out if isinstance(fact, LogLoaded)]


def test_a_clean_stop_recovers_what_nobody_asked_for_since_an_unclean_start() -> None:
    node, _ = closing()
    node.out.clear()  # the process ends here: its log is not closed, there is no marker
    manager = LogManager(node, node.replicas.settings, StorageRules(), {})
    closed: list[DiskError | None] = []
    manager.close_clean(9, 2_000_000, lambda error, _now: closed.append(error))
    assert loaded(node) == [(1, False)]
    node.out[:] = [effect for effect in node.out if isinstance(effect, Flush)]
    assert LOG in flush(node)
    flush(node)
    flush(node)
    assert closed == [None]
    assert LogManager(node, node.replicas.settings, StorageRules(), {}).clean_epoch == 9


def test_a_clean_stop_leaves_alone_what_nobody_asked_for_since_a_clean_start() -> None:
    node, _ = closing()
    for _ in range(3):
        flush(node)
    manager = LogManager(node, node.replicas.settings, StorageRules(), {})
    node.out.clear()
    manager.close_clean(9, 2_000_000, lambda _error, _now: None)
    assert loaded(node) == []


def test_a_truncation_below_the_recovery_point_is_checkpointed_before_the_log_grows_again() -> None:
    """LogManager.truncateTo: else recovery trusts segments that were written anew."""
    trio = Trio()
    trio.tell(1)
    for value in (5, 6, 7):
        trio.produce(1, value)
    node = trio.nodes[1]
    node.partition.log.local.flushed(3)
    node.partition.truncate_to(3, 0)
    assert [e for e in node.out if isinstance(e, Barrier)] == []
    node.partition.truncate_to(1, 0)
    barriers = [effect.files for effect in node.out if isinstance(effect, Barrier)]
    assert barriers[-1] == (RECOVERY_POINT_CHECKPOINT,)
    assert OffsetCheckpoint(node.files, RECOVERY_POINT_CHECKPOINT).read() == {TP: 1}
    node.out.clear()
    node.partition.truncate_fully(0)
    assert OffsetCheckpoint(node.files, RECOVERY_POINT_CHECKPOINT).read() == {TP: 0}


@pytest.mark.parametrize(("settings", "delay_ms"), [({}, 30_000), ({"delay": 500}, 500)])
def test_periodic_tasks_begin_after_the_initial_delay(
    settings: dict[str, int], delay_ms: int
) -> None:
    trio = Trio(**{f"log_initial_task_{key}_ms": each for key, each in settings.items()})
    node = trio.nodes[1]
    node.replicas.logs.start(trio.now)
    tasks = ("log-retention", "log-flusher", "recovery-point-checkpoint")
    begins = trio.now + 1000 * delay_ms
    assert [node.timers.deadline(task) for task in tasks] == [begins] * 3


@pytest.mark.parametrize(
    ("settings", "flushed"),
    [
        ({"interval": 1000}, [True, False]),
        ({"interval": 1000, "scheduler_interval": 500}, [True, True]),
        ({"scheduler_interval": 500}, [True, True]),
        ({}, [False, False]),
    ],
)
def test_flush_ms_counts_as_often_as_the_flusher_looks(
    settings: dict[str, int], flushed: list[bool]
) -> None:
    """LogManager.startup: log.flush.scheduler.interval.ms is its period, and by default endless."""
    trio = Trio(**{f"log_flush_{key}_ms": each for key, each in settings.items()})
    node = trio.nodes[1]
    trio.tell(1)
    node.replicas.logs.start(trio.now)
    found = []
    for _ in range(2):
        trio.produce(1, 7, acks=1)
        trio.now += 31_000_000
        while (due := node.timers.pop_due(trio.now)) is not None:
            node.timers.fire(due[0], due[1], trio.now)
        flushes = [effect.files for effect in node.out if isinstance(effect, Flush)]
        found.append(any(path.startswith(f"{TP}/") for files in flushes for path in files))
        trio.drain(1)
    assert found == flushed
