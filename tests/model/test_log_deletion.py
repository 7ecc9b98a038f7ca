"""Logs of partitions that are hosted no longer: renamed at once, deleted later, never loaded."""

from __future__ import annotations

import pytest

from kafkasim.model.effects import Barrier
from kafkasim.model.facts import LogDeleted
from kafkasim.model.storage.checkpoints import (
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    OffsetCheckpoint,
    logs_on_disk,
)
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.rules import StorageRules
from kafkasim.scenarios.variants.releases import Storage28
from tests.model.replica_harness import TP, Node, Trio


def test_a_dropped_log_is_renamed_and_goes_after_file_delete_delay() -> None:
    trio = Trio()
    trio.tell(1)
    trio.produce(1, 5)
    node = trio.nodes[1]
    partition = node.replicas.partitions[TP]
    node.out.clear()
    node.replicas.roles.stop(TP, partition.topic_id, trio.now)
    node.replicas.roles.checkpoint_deletions(trio.now)
    assert [e.log_end_offset for e in node.out if isinstance(e, LogDeleted)] == [1]
    assert node.files.paths(f"{TP}/") == []
    waiting = node.files.paths(f"{TP}.")
    assert waiting
    assert all(path.rpartition("/")[0].endswith("-delete") for path in waiting)
    assert logs_on_disk(node.files, "") == []  # a restart does not take it for a log
    due = trio.now + partition.log.config.file_delete_delay_ms * 1000
    key = ("delete-log", waiting[0].rpartition("/")[0])
    assert node.timers.deadline(key) == due
    while (ripe := node.timers.pop_due(due)) is not None:
        node.timers.fire(ripe[0], ripe[1], due)
    assert node.files.paths(f"{TP}.") == []


def _drop(node: Node, now: int) -> None:
    node.out.clear()
    node.replicas.roles.stop(TP, node.replicas.partitions[TP].topic_id, now)
    node.replicas.roles.checkpoint_deletions(now)


CHECKPOINTS = (RECOVERY_POINT_CHECKPOINT, LOG_START_CHECKPOINT)


@pytest.mark.parametrize(
    ("rules", "flushed"),
    [(StorageRules(), [(f"{TP}/",), CHECKPOINTS]), (Storage28(), [CHECKPOINTS])],
)
def test_the_new_name_is_durable_before_the_checkpoints_forget_the_log(
    rules: StorageRules, flushed: list[tuple[str, ...]]
) -> None:
    """LogManager.asyncDelete; the name since 3.0 only (KAFKA-3968)."""
    trio = Trio(storage=rules)
    trio.tell(1)
    trio.produce(1, 5)
    node = trio.nodes[1]
    node.partition.log.local.flushed(1)
    _drop(node, trio.now)
    assert [each.files for each in node.out if isinstance(each, Barrier)] == flushed
    found = [OffsetCheckpoint(node.files, name).read() for name in CHECKPOINTS]
    assert found == [{}, {}]


def test_a_checkpoint_that_cannot_be_written_takes_the_directory_offline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    trio = Trio()
    trio.tell(1)
    node = trio.nodes[1]

    def refuse(path: str, _item: object, _size: int) -> None:
        raise DiskError(path, "Input/output error")

    monkeypatch.setattr(node.files, "append", refuse)
    _drop(node, trio.now)
    assert [error.reason for error in node.failures] == ["Input/output error"]
