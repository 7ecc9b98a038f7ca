"""Logs of partitions that are hosted no longer: renamed at once, deleted later, never loaded."""

from __future__ import annotations

from kafkasim.model.facts import LogDeleted
from kafkasim.model.storage.checkpoints import logs_on_disk
from tests.model.replica_harness import TP, Trio


def test_a_dropped_log_is_renamed_and_goes_after_file_delete_delay() -> None:
    trio = Trio()
    trio.tell(1)
    trio.produce(1, 5)
    node = trio.nodes[1]
    partition = node.replicas.partitions[TP]
    node.out.clear()
    node.replicas.roles.stop(TP, partition.topic_id, trio.now)
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
