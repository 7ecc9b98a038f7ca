"""The disk: files port, durability, power loss, faults, cost."""

import pytest

from kafkasim.model.storage.files import Corrupt, DiskError, DiskFull, ReadError
from kafkasim.sim.disk.device import Disk
from kafkasim.sim.kernel import Kernel
from kafkasim.sim.streams import Streams


def disk_of(seed: int = 1, volumes: dict[str, int] | None = None) -> tuple[Disk, Kernel]:
    kernel = Kernel()
    return Disk(kernel, Streams(seed).stream("disk"), volumes), kernel


def flush(disk: Disk, kernel: Kernel, *paths: str) -> list[str | None]:
    answers: list[str | None] = []
    disk.flush(paths, lambda _token, error: answers.append(error), None)
    kernel.run_until(int(kernel.now) + 1_000_000)
    return answers


def outcomes(scene) -> set:
    """All states of the file ``f`` (None: no such file) after a power loss, over many seeds."""
    found = set()
    for seed in range(120):
        disk, kernel = disk_of(seed)
        scene(disk, kernel)
        disk.power_loss()
        found.add(tuple(map(str, disk.read("f"))) if disk.exists("f") else None)
    return found


def test_files_port_reads_what_was_written():
    disk, _ = disk_of()
    for item in "abcd":
        disk.append("x/f", item, 10)
    disk.truncate("x/f", 3)
    disk.write("x/g.tmp", "G", 7)
    disk.rename("x/g.tmp", "x/g")
    disk.append("y", 1, 1)
    disk.delete("y")
    disk.delete("y")
    assert (disk.read("x/f", 1), disk.count("x/f"), disk.size("x/f")) == (["b", "c"], 3, 30)
    assert (disk.paths("x/"), disk.read("x/g"), disk.exists("y")) == (["x/f", "x/g"], ["G"], False)
    with pytest.raises(FileNotFoundError):
        disk.read("y")


def test_power_loss_keeps_the_last_flush_and_any_prefix_of_what_came_after():
    def scene(disk, kernel):
        for item in "ab":
            disk.append("f", item, 1)
        flush(disk, kernel, "f")
        for item in "cd":
            disk.append("f", item, 1)

    torn_c, torn_d = str(Corrupt("c")), str(Corrupt("d"))
    assert outcomes(scene) == {
        ("a", "b"),
        ("a", "b", "c"),
        ("a", "b", torn_c),
        ("a", "b", "c", "d"),
        ("a", "b", "c", torn_d),
    }


def test_power_loss_after_a_truncate_may_bring_back_what_was_cut():
    def scene(disk, kernel):
        for item in "abc":
            disk.append("f", item, 1)
        flush(disk, kernel, "f")
        disk.truncate("f", 1)
        disk.append("f", "x", 1)

    assert outcomes(scene) == {
        ("a", "b", "c"),
        ("a",),
        ("a", "x"),
        ("a", str(Corrupt("x"))),
    }


def test_a_flushed_truncate_stays():
    def scene(disk, kernel):
        for item in "abc":
            disk.append("f", item, 1)
        disk.truncate("f", 1)
        flush(disk, kernel, "f")

    assert outcomes(scene) == {("a",)}


def test_write_is_not_atomic_and_write_with_rename_is():
    def in_place(disk, kernel):
        disk.write("f", "old", 1)
        flush(disk, kernel, "f")
        disk.write("f", "new", 1)

    def renamed(disk, kernel):
        disk.write("f", "old", 1)
        flush(disk, kernel, "f")
        disk.write("f.tmp", "new", 1)
        flush(disk, kernel, "f.tmp")
        disk.rename("f.tmp", "f")

    assert outcomes(in_place) == {("old",), (), ("new",), (str(Corrupt("new")),)}
    assert outcomes(renamed) == {("old",), ("new",)}


def test_an_unflushed_file_may_not_exist_after_power_loss():
    assert None in outcomes(lambda disk, _kernel: disk.append("f", "a", 1))


def test_a_deleted_file_comes_back_until_the_directory_is_flushed():
    def scene(disk, kernel):
        disk.append("f", "a", 1)
        flush(disk, kernel, "f")
        disk.delete("f")

    def flushed(disk, kernel):
        scene(disk, kernel)
        flush(disk, kernel, "f")

    assert outcomes(scene) == {("a",), None}
    assert outcomes(flushed) == {None}


def test_a_directory_is_renamed_with_all_its_files_or_not_at_all():
    def names(flushed: bool) -> set:
        found = set()
        for seed in range(60):
            disk, kernel = disk_of(seed)
            for name in ("a/f", "a/g", "b/h"):
                disk.append(name, "x", 1)
                flush(disk, kernel, name)
            disk.rename("a/", "c/")
            if flushed:
                assert flush(disk, kernel, "a/") == [None]
            disk.append("a/new", "y", 1)
            disk.power_loss()
            found.add(tuple(disk.paths("")))
        return found

    moved = ("b/h", "c/f", "c/g")
    assert names(True) == {moved, ("a/new", *moved)}
    assert names(False) == {moved, ("a/new", *moved), ("a/f", "a/g", "b/h")}


def test_flush_covers_what_was_written_when_it_was_asked_for():
    def scene(disk, kernel):
        disk.append("f", "a", 1)
        disk.flush(("f",), lambda _token, _error: None, None)
        disk.append("f", "b", 1)
        kernel.run_until(1_000_000)

    assert outcomes(scene) == {("a",), ("a", "b"), ("a", str(Corrupt("b")))}


def test_power_loss_during_a_flush_discards_its_answer():
    disk, kernel = disk_of()
    answers: list[str | None] = []
    disk.append("f", "a", 1)
    disk.flush(("f",), lambda _token, error: answers.append(error), None)
    disk.power_loss()
    kernel.run_until(1_000_000)
    assert answers == []


def test_a_full_disk_refuses_writes_and_deleting_makes_room():
    disk, _ = disk_of(volumes={"": 10})
    disk.append("f", "a", 8)
    with pytest.raises(DiskFull):
        disk.append("f", "b", 8)
    disk.delete("f")
    disk.append("f", "b", 8)
    disk.fill()
    with pytest.raises(DiskFull):
        disk.append("f", "c", 1)
    assert disk.read("f") == ["b"]


def test_volumes_fill_one_by_one_and_a_deleted_segment_keeps_its_room_for_a_while():
    disk, kernel = disk_of(volumes={"a/": 10, "b/": 10})
    disk.append("a/f", "1", 6)
    disk.append("b/f", "2", 6)
    disk.write("a/f", "1", 4)  # beside the 6: both fit
    disk.delete("a/f", delay_ms=1)
    with pytest.raises(DiskFull, match="No space left on device: a/g"):
        disk.append("a/g", "3", 7)
    kernel.run_until(1000)
    disk.append("a/g", "3", 7)
    with pytest.raises(DiskFull):
        disk.write("a/g", "4", 4)  # not beside the 7
    assert (disk.read("a/g"), disk.read("b/f")) == (["3"], ["2"])


def test_a_process_that_starts_frees_what_an_earlier_one_deleted():
    disk, _ = disk_of(volumes={"": 10})
    disk.append("f", "1", 10)
    disk.delete("f", delay_ms=60_000)
    disk.process_starts()
    disk.append("g", "2", 10)
    assert disk.paths("") == ["g"]


def test_a_full_volume_has_the_room_again_of_what_a_power_loss_took():
    disk, _ = disk_of(volumes={"": 10})
    disk.append("f", "1", 10)
    disk.power_loss()
    room = 0 if disk.exists("f") and disk.size("f") else 10
    disk.append("g", "2", room)
    assert disk.size("g") == room


def test_read_errors_flush_errors_and_repair():
    disk, kernel = disk_of()
    disk.append("x/f", "a", 1)
    disk.fail_reads("x/")
    disk.fail_flushes()
    with pytest.raises(ReadError):
        disk.read("x/f")
    failed = flush(disk, kernel, "x/f")
    disk.repair()
    assert (failed, flush(disk, kernel, "x/f")) == (["Input/output error"], [None])
    assert disk.read("x/f") == ["a"]


def test_bit_rot_damages_one_item_here_and_leaves_the_shared_object():
    disk, _ = disk_of()
    other, _ = disk_of()
    batch = ["shared"]
    disk.append("f", batch, 1)
    other.append("f", batch, 1)
    assert disk.bit_rot("f") == 0
    assert (disk.read("f"), other.read("f"), batch) == ([Corrupt(batch)], [["shared"]], ["shared"])


def test_a_stall_ends_no_flush_until_it_is_over():
    disk, kernel = disk_of()
    answers: list[int] = []
    disk.append("f", "a", 1)
    disk.flush(("f",), lambda _token, _error: answers.append(int(kernel.now)), None)
    disk.stall()
    disk.flush(("f",), lambda _token, _error: answers.append(int(kernel.now)), None)
    kernel.run_until(5_000_000)
    assert answers == []
    disk.resume()
    kernel.run_until(6_000_000)
    assert len(answers) == 2
    assert all(at > 5_000_000 for at in answers)


def test_writes_cost_two_microseconds_a_kib_times_the_slow_factor():
    disk, _ = disk_of()
    disk.append("f", "a", 10 * 1024)
    healthy = disk.take_cost_us()
    disk.slow(50)
    disk.append("f", "a", 10 * 1024)
    assert (healthy, disk.take_cost_us(), disk.take_cost_us()) == (20, 1000, 0)


def ends_of(*speeds: tuple[int, float]) -> list[int]:
    """Return when four flushes end that are asked for at once; ``speeds`` are factors from a time.

    The first speed is that at which they are asked for.
    """
    disk, kernel = disk_of()
    disk.slow(speeds[0][1])
    ends: list[tuple[int, int]] = []
    for number in range(4):
        disk.flush(("f",), lambda token, _error: ends.append((token, int(kernel.now))), number)
    for at, factor in speeds[1:]:
        kernel.run_until(at)
        disk.slow(factor)
    kernel.run_until(60_000_000)
    assert [number for number, _ in ends] == [0, 1, 2, 3]
    return [at for _, at in ends]


def test_what_waits_behind_a_slow_flush_is_done_at_the_speed_of_its_turn():
    healthy, slow = ends_of((0, 1)), ends_of((0, 1000))
    healed = ends_of((0, 1000), (1_000, 1))
    assert healed[0] == slow[0] > 500_000
    assert [end - healed[0] for end in healed] == [end - healthy[0] for end in healthy]
    again = ends_of((0, 10), (100, 1), (200, 10), (300, 1000), (400, 1000))
    slower = ends_of((0, 10), (100, 1000))
    assert (again[0], slower[0]) == (ends_of((0, 10))[0],) * 2
    assert [end - again[0] for end in again] == [end - healthy[0] for end in healthy]
    assert [end - slower[0] for end in slower] == [end - slow[0] for end in slow]


def test_a_power_loss_drops_what_waits_behind_a_slow_flush():
    disk, kernel = disk_of()
    ends: list[int] = []
    disk.slow(1000)
    for number in range(3):
        disk.flush((), lambda token, _error: ends.append(token), number)
    disk.power_loss()
    disk.slow(1)
    disk.flush((), lambda token, _error: ends.append(token), 3)
    kernel.run_until(60_000_000)
    assert ends == [3]


def test_a_failed_directory_refuses_all_and_the_others_nothing():
    disk, kernel = disk_of()
    for path in ("d1/f", "d2/f"):
        disk.append(path, "a", 1)
    disk.fail(True, "d1/")
    for refused in (
        lambda: disk.append("d1/f", "b", 1),
        lambda: disk.write("d1/f", "b", 1),
        lambda: disk.read("d1/f"),
        lambda: disk.truncate("d1/f", 0),
        lambda: disk.rename("d1/f", "d1/g"),
        lambda: disk.delete("d1/f"),
    ):
        with pytest.raises(DiskError):
            refused()
    disk.append("d2/f", "b", 1)
    answers = []
    disk.flush(("d1/f", "d2/f"), lambda _token, error: answers.append(error), None)
    kernel.run_until(int(kernel.now) + 1_000_000)
    disk.fail(False, "d1/")
    assert (answers, answers[0].files) == (["Input/output error"], ("d1/f",))
    disk.power_loss()
    assert (disk.read("d2/f"), flush(disk, kernel, "d2/f")) == (["a", "b"], [None])


def test_a_directory_may_be_full_by_itself():
    disk, _ = disk_of()
    disk.fill(True, "d1/")
    with pytest.raises(DiskFull):
        disk.append("d1/f", "a", 1)
    disk.append("d2/f", "a", 1)
    disk.fill(False, "d1/")
    disk.append("d1/f", "a", 1)
