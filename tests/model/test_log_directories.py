"""Several log directories in a broker's storage: where logs go, what a failed directory refuses."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.config import BrokerConfig, ConfigError
from kafkasim.model.directories import LOST, MIGRATING, UNASSIGNED, is_online
from kafkasim.model.effects import Flush
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.logs.log_manager import LogManager
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.storage.checkpoints import (
    CLEAN_SHUTDOWN,
    HIGH_WATERMARK_CHECKPOINT,
    OffsetCheckpoint,
    write_clean_marker,
)
from kafkasim.model.storage.directories import META_PROPERTIES, DirectoryFiles
from kafkasim.model.storage.files import DiskError, MemoryFiles
from tests.model.replica_harness import TOPIC_ID, Node

CONFIG = BrokerConfig.from_properties({"log.dirs": "/d1, /d2"})
ONE, TWO, THREE, FOUR = [TopicPartition("t", number) for number in range(4)]


def node(files: MemoryFiles | None = None) -> Node:
    """A replica manager with two directories, over files that another one has left behind."""
    made = Node(1, CONFIG, ReplicationRules())
    if files is not None:
        made.files = files
        made.replicas.logs = LogManager(
            made, made.replicas.settings, made.replicas.logs.rules, made.replicas.partitions
        )
    return made


def opened(logs: LogManager, tp: TopicPartition, *assigned: Any) -> str | None:
    """Open a log and return its path."""
    log = logs.open(tp, TOPIC_ID, {}, 0, *assigned)
    return None if log is None else log.directory


def test_a_new_log_goes_to_the_directory_with_the_fewest_logs() -> None:
    logs = node().replicas.logs
    assert [opened(logs, tp) for tp in (ONE, TWO, THREE)] == ["/d1/t-0", "/d2/t-1", "/d1/t-2"]
    assert opened(logs, FOUR, UNASSIGNED) == "/d2/t-3"


def test_a_log_goes_where_metadata_has_it_and_a_known_one_stays() -> None:
    first = node()
    logs = first.replicas.logs
    second_id = logs.directories[1].id
    assert [opened(logs, tp, second_id) for tp in (ONE, TWO)] == ["/d2/t-0", "/d2/t-1"]
    again = node(first.files).replicas.logs  # type: ignore[arg-type]
    assert [directory.id for directory in again.directories] == [
        directory.id for directory in logs.directories
    ]
    assert [opened(again, ONE), opened(again, THREE)] == ["/d2/t-0", "/d1/t-2"]


def test_one_directory_has_the_paths_it_always_had_and_no_id() -> None:
    """Whatever it is called: nobody can tell it from a broker without log.dirs."""
    config = BrokerConfig.from_properties({"log.dirs": "/d1"})
    made = Node(1, config, ReplicationRules())
    assert opened(made.replicas.logs, ONE) == "t-0"
    assert made.replicas.logs.directory_ids() == ()
    assert not made.files.exists(META_PROPERTIES)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("/d1,/d1/", "log.dirs: '/d1/' lies in, or is, another log directory"),
        ("/d,/d/1", "log.dirs: '/d/1' lies in, or is, another log directory"),
        ("/", "log.dirs: '/' is no log directory"),
    ],
)
def test_wrong_log_dirs_are_one_line(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as error:
        BrokerConfig.from_properties({"log.dirs": text})
    assert str(error.value) == problem


def test_a_failed_directory_takes_no_log_that_may_lie_in_it() -> None:
    """Partition.createLogInAssignedDirectoryId: only a log that is nowhere yet goes elsewhere."""
    logs = node().replicas.logs
    first, second = logs.directories
    assert logs.fail(DiskError("/d1/t-0/x.log", "I/O error")) is first
    assert logs.fail(DiskError("/d1/t-1/x.log", "I/O error")) is None
    assert opened(logs, ONE, first.id) is None
    assert opened(logs, ONE, MIGRATING) is None
    assert [opened(logs, TWO, UNASSIGNED), opened(logs, THREE)] == ["/d2/t-1", "/d2/t-2"]
    assert (logs.directory_ids(), logs.offline) == ((second.id,), [first])


def test_after_its_first_error_a_directory_refuses_everything() -> None:
    """LocalLog.maybeHandleIOException: the other directory's logs go on."""
    made = node()
    logs = made.replicas.logs
    bad, good = logs.open(ONE, TOPIC_ID, {}, 0), logs.open(TWO, TOPIC_ID, {}, 0)
    assert bad is not None
    assert good is not None
    logs.fail(DiskError("/d1/checkpoint", "I/O error"))
    with pytest.raises(DiskError, match="offline"):
        bad.truncate_fully_and_start_at(5)
    good.truncate_fully_and_start_at(5)
    assert good.log_end_offset == 5


def test_every_call_of_a_failed_view_is_refused() -> None:
    files = DirectoryFiles(MemoryFiles())
    files.write("a", 1, 1)
    files.append("a", 2, 1)
    files.rename("a", "b")
    assert (files.read("b"), files.count("b"), files.size("b")) == ([1, 2], 2, 2)
    assert (files.exists("b"), files.paths("")) == (True, ["b"])
    files.truncate("b", 1)
    files.failed = True
    calls: tuple[Any, ...] = (
        lambda: files.write("b", 1, 1),
        lambda: files.append("b", 1, 1),
        lambda: files.rename("b", "c"),
        lambda: files.read("b"),
        lambda: files.count("b"),
        lambda: files.size("b"),
        lambda: files.exists("b"),
        lambda: files.paths(""),
        lambda: files.truncate("b", 0),
        lambda: files.delete("b"),
    )
    for call in calls:
        with pytest.raises(DiskError):
            call()


def test_checkpoints_of_a_failed_directory_are_written_no_more() -> None:
    made = node()
    logs = made.replicas.logs
    logs.start(0)
    first = [effect.files for effect in made.out if isinstance(effect, Flush)]
    made.out.clear()
    logs.fail(DiskError("/d1/x", "I/O error"))
    made.out.clear()
    logs._checkpoint_high_watermarks(0)
    second = [effect.files for effect in made.out if isinstance(effect, Flush)]
    one, two = [(f"/d{number}/{HIGH_WATERMARK_CHECKPOINT}",) for number in (1, 2)]
    assert (first, second) == ([one, two], [two])


def test_high_watermarks_are_kept_by_directory() -> None:
    files = MemoryFiles()
    OffsetCheckpoint(files, f"/d1/{HIGH_WATERMARK_CHECKPOINT}").write({ONE: 7})
    directory = node(files).replicas.logs.directories[0]
    assert (directory.high_watermark(ONE), directory.high_watermark(TWO)) == (7, 0)


@pytest.mark.parametrize(("epochs", "known"), [((5, 5), 5), ((5, 6), None), ((5, None), None)])
def test_a_stop_was_clean_if_all_directories_say_so(
    epochs: tuple[int | None, int | None], known: int | None
) -> None:
    """LogManager.readBrokerEpochFromCleanShutdownFiles."""
    files = MemoryFiles()
    for number, epoch in enumerate(epochs, 1):
        if epoch is not None:
            write_clean_marker(files, f"/d{number}/", epoch)
    assert node(files).replicas.logs.clean_epoch == known


def test_a_clean_stop_marks_the_directories_that_are_left() -> None:
    made = node()
    logs = made.replicas.logs
    logs.fail(DiskError("/d1/x", "I/O error"))
    made.out.clear()
    closed: list[DiskError | None] = []
    logs.close_clean(9, 0, lambda error, _now: closed.append(error))
    while made.out:
        effect = made.out.pop(0)
        assert isinstance(effect, Flush)
        effect.handler(None, 0)
    found = [made.files.exists(f"/d{number}/{CLEAN_SHUTDOWN}") for number in (1, 2)]
    assert (found, closed) == ([False, True], [None])


def test_a_directory_that_cannot_be_read_is_offline_from_the_start() -> None:
    class Broken(MemoryFiles):
        def read(self, path: str, first: int = 0, last: int | None = None) -> list[Any]:
            if path.startswith("/d2/"):
                raise DiskError(path, "I/O error")
            return super().read(path, first, last)

    files = Broken()
    files.write("/d2/meta.properties", (1, "id"), 1)
    logs = node(files).replicas.logs
    assert [directory.path for directory in logs.online] == ["/d1"]
    assert logs.clean_epoch is None


@pytest.mark.parametrize(
    ("directory", "online", "expected"),
    [
        (UNASSIGNED, ("a",), True),
        (MIGRATING, ("a",), True),
        (LOST, ("a",), False),
        (LOST, (), False),
        ("a", ("a", "b"), True),
        ("c", ("a", "b"), False),
        ("c", (), True),
    ],
)
def test_whether_a_directory_is_online(
    directory: str, online: tuple[str, ...], expected: bool
) -> None:
    """DirectoryId.isOnline."""
    assert is_online(directory, online) is expected


def test_ids_of_directories_differ_by_the_stream_of_the_process() -> None:
    ids = [directory.id for directory in node().replicas.logs.directories]
    assert len(dict.fromkeys(ids)) == 2
    assert [directory.id for directory in node().replicas.logs.directories] == ids


def test_the_reason_of_a_disk_error_is_plain_text_as_facts_need_it() -> None:
    """A simulated disk tells with a kind of text which files it has not flushed."""
    told = type("FlushError", (str,), {})("Input/output error")
    assert type(DiskError("/d1/t-0/x.log", told).reason) is str
