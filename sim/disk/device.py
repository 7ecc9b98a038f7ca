"""A host's disk: the files port of the model, a page cache, fsync times and disk faults.

The disk survives the process, and a power loss as far as it was flushed. fsync of a path makes two
things durable: the file's content at the moment of the call (:mod:`kafkasim.sim.disk.inode`), and
all directory operations up to the last one that names the path, as ext4's journal does
(:mod:`kafkasim.sim.disk.directory`). fsync of a path that ends in ``/`` is for the directory
operations below it. A power loss keeps of each file the last flush plus a prefix of its pending
operations, drawn from the disk's random stream; the last surviving item may be torn.

An fsync takes a lognormal time around 2 ms. A read that misses the page cache takes 100 µs and
2 µs/KiB (:meth:`Disk.load`). The device does one of them at a time. A write into the page cache
takes 2 µs/KiB, a read of it no time. ``slow`` multiplies all these times; a stalled disk finishes
no operation. An operation keeps the speed with which it began. Later ones get the speed that the
device then has.

Not modelled: which data the page cache holds (the caller knows), and write-back of appended data
(which may survive by the drawn prefix).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasim.model.storage.files import Corrupt, DiskError, DiskFull, ReadError
from kafkasim.sim.disk.directory import Directory
from kafkasim.sim.disk.inode import Inode
from kafkasim.sim.kernel import Kernel

FSYNC_MU = 7.6  # ln(2000 µs): the median
FSYNC_SIGMA = 0.5
READ_US = 100
READ_US_PER_KIB = 2
WRITE_US_PER_KIB = 2

Done = Callable[[Any, str | None], None]


class FlushError(str):
    """Why a flush failed; ``files`` are those that are not durable because of it."""

    files: tuple[str, ...] = ()


class FlushJob:
    """A flush, a read, or a writer that waits for the end of a stall; also the event of its end."""

    __slots__ = (
        "begins_us", "callbacks", "done", "files", "generation", "healthy_us", "operation", "size",
        "token",
    )  # fmt: skip

    _ok = True

    def __init__(
        self,
        files: list[tuple[Inode, int, str]],
        operation: int,
        done: Done,
        token: Any,
        generation: int,
        size: int | None = None,
    ) -> None:
        self.callbacks: Any = None
        self.files = files  # what becomes durable: (inode, up to which operation, path)
        self.operation = operation  # up to which directory operation, 0 for none
        self.done = done
        self.token = token
        self.generation = generation  # how often the power had been lost when it was asked for
        self.size = size  # of a read, in bytes; None: it is none
        self.begins_us = 0  # when the device begins it, and how long that takes if it is healthy
        self.healthy_us = 0.0

    def moved(self) -> FlushJob:
        """Return the same job as another event; this one has no effect any more."""
        copy = FlushJob(
            self.files, self.operation, self.done, self.token, self.generation, self.size
        )
        copy.healthy_us = self.healthy_us
        self.generation = -1
        return copy


@dataclass
class Volume:
    """A file system with a limit: the files below a path prefix share its bytes."""

    prefix: str
    capacity: int  # in bytes
    used: int = 0  # in bytes, with what is deleted and not free yet
    told: bool = False  # that it is full
    deleted: list[tuple[int, int]] = field(default_factory=list)
    """Deleted files that keep their room: until when in µs, and their bytes"""

    def has_room(self, size: int, now: int) -> bool:
        """Return whether ``size`` more bytes fit now."""
        if self.deleted and self.used + size > self.capacity:
            self.free([each for each in self.deleted if each[0] > now])
        return self.used + size <= self.capacity

    def free(self, still: list[tuple[int, int]]) -> None:
        """Free the room of all deleted files, but of those that still keep it."""
        self.used -= sum([size for _, size in self.deleted]) - sum([size for _, size in still])
        self.deleted = still


class Disk:
    """The disk of one host.

    Args:
        kernel: that times its flushes.
        rng: draws what a power loss keeps, and how long a flush takes.
        volumes: capacities in bytes by path prefix; a path lies below one prefix at most, and what
            lies below none has no limit.
        on_full: is called with the prefix and the capacity when there is no room for a write, for
            the first time since a process started.
    """

    def __init__(
        self,
        kernel: Kernel,
        rng: random.Random,
        volumes: Mapping[str, int] | None = None,
        on_full: Callable[[str, int], None] = lambda _prefix, _capacity: None,
    ) -> None:
        self.written = 0  # bytes written into the page cache that the host has not charged yet
        self.slow_factor = 1.0
        self.stalled = False
        self._kernel = kernel
        self._rng = rng
        self._on_full = on_full
        self._volumes = [Volume(prefix, size) for prefix, size in (volumes or {}).items()]
        # Path prefixes below which a fault refuses writes, reads, flushes or everything.
        self._full: dict[str, None] = {}
        self._unreadable: dict[str, None] = {}
        self._unflushable: dict[str, None] = {}
        self._broken: dict[str, None] = {}
        self._directory = Directory()
        self._names = self._directory.inodes
        self._busy_until = 0
        self._generation = 0
        self._waiting: list[FlushJob] = []  # flushes and writers caught by a stall
        self._slowed: list[FlushJob] = []  # what was asked for since the device became slow
        self._callbacks = (self._flushed,)

    # ------------------------------------------------------------------------- the files port

    def exists(self, path: str) -> bool:
        """Return whether the file exists."""
        return path in self._names

    def paths(self, prefix: str) -> list[str]:
        """Return the sorted paths that start with ``prefix``."""
        return self._directory.paths(prefix)

    def append(self, path: str, item: Any, size: int) -> None:
        """Append one item, creating the file if it is missing.

        Raises:
            DiskFull: the disk has no room, or a fault says so.
            DiskError: the disk failed.
        """
        if self._full or self._volumes:
            self._check_space(path, size)
            self._use(path, size)
        inode = self._names.get(path)
        if inode is None:
            inode = self._directory.create(path, int(self._kernel.now))
        inode.items.append(item)
        inode.sizes.append(size)
        inode.size += size
        inode.sequence += 1
        self.written += size

    def write(self, path: str, item: Any, size: int) -> None:
        """Replace the content by one item: a truncation, then an append, which raises as there.

        Without room for both contents nothing changes.
        """
        if self._full or self._volumes:
            self._check_space(path, size)
        if path in self._names:
            self.truncate(path, 0)
        self.append(path, item, size)

    def read(self, path: str, first: int = 0, last: int | None = None) -> list[Any]:
        """Return the items ``first`` to ``last`` (exclusive; None is the end).

        Raises:
            ReadError: a fault makes the file unreadable.
            FileNotFoundError: it does not exist.
        """
        for prefix in self._unreadable:
            if path.startswith(prefix):
                raise ReadError(path, "Input/output error")
        return self._inode(path).items[first:last]

    def count(self, path: str) -> int:
        """Return the number of items of a file."""
        return len(self._inode(path).items)

    def size(self, path: str) -> int:
        """Return the size of a file in bytes."""
        return self._inode(path).size

    def truncate(self, path: str, count: int) -> None:
        """Keep the first ``count`` items of a file; to keep all is no operation."""
        if self._broken:
            self._check(path)
        inode = self._inode(path)
        if count < len(inode.items):
            before = inode.size
            inode.truncate(count, int(self._kernel.now))
            self._use(path, inode.size - before)

    def rename(self, old: str, new: str) -> None:
        """Rename a file, replacing ``new``, or a directory (both names end in ``/``)."""
        if self._broken:
            self._check(old)
        if old.endswith("/"):
            self._directory.rename_directory(old, new, int(self._kernel.now))
            return
        inode = self._inode(old)
        replaced = self._directory.rename(old, new, int(self._kernel.now))
        if replaced is not None and replaced is not inode:
            self._use(new, -replaced.size)

    def delete(self, path: str, delay_ms: int = 0) -> None:
        """Delete a file, whose room is free after a delay; a missing one is no error."""
        if self._broken:
            self._check(path)
        if path in self._names:
            now = int(self._kernel.now)
            size = self._directory.delete(path, now).size
            volume = self._volume(path)
            if volume is not None and delay_ms:
                volume.deleted.append((now + delay_ms * 1000, size))
            else:
                self._use(path, -size)

    def process_starts(self) -> None:
        """Free the room of deleted files: a process that starts removes them (LogLoader)."""
        for volume in self._volumes:
            volume.free([])
            volume.told = False

    # ------------------------------------------------------------------------------- the time

    def take_cost_us(self) -> int:
        """Return what the writes since the last call cost, in microseconds."""
        cost = int(self.written * WRITE_US_PER_KIB * self.slow_factor) >> 10
        self.written = 0
        return cost

    def flush(self, files: Iterable[str], done: Done, token: Any) -> None:
        """Make files durable as they are now (fsync); call ``done(token, error)`` at its end."""
        names = self._names
        marks = [(names[path], names[path].sequence, path) for path in files if path in names]
        operation = self._directory.last_operation(files)
        self._submit(FlushJob(marks, operation, done, token, self._generation))

    def load(self, size: int, done: Done, token: Any) -> None:
        """Read ``size`` bytes that the page cache lacks; then call ``done(token, None)``."""
        self._submit(FlushJob([], 0, done, token, self._generation, size))

    def wait_stalled(self, done: Done, token: Any) -> None:
        """Call ``done(token, None)`` once the disk is no longer stalled."""
        assert self.stalled
        self._waiting.append(FlushJob([], 0, done, token, self._generation))

    def _submit(self, job: FlushJob) -> None:
        if self.stalled:
            self._waiting.append(job)
        else:
            self._begin(job)

    def _begin(self, job: FlushJob) -> None:
        if job.size is None:
            healthy_us = self._rng.lognormvariate(FSYNC_MU, FSYNC_SIGMA)
        else:
            healthy_us = READ_US + job.size * READ_US_PER_KIB / 1024
        job.healthy_us = healthy_us
        self._queue(job)

    def _queue(self, job: FlushJob) -> None:
        """Let the device do a job after those before it."""
        job.begins_us = max(int(self._kernel.now), self._busy_until)
        self._busy_until = job.begins_us + 1 + int(job.healthy_us * self.slow_factor)
        if self.slow_factor != 1.0:
            self._slowed.append(job)
        job.callbacks = self._callbacks
        self._kernel.push(self._busy_until, job)

    def _flushed(self, job: FlushJob) -> None:
        if job.generation != self._generation:
            return
        if self.stalled:
            self._waiting.append(job)
            return
        marks = job.files
        error: FlushError | None = None
        if self._unflushable:
            lost = [path for _, _, path in marks if _below(self._unflushable, path)]
            if lost or "" in self._unflushable:
                error = FlushError("Input/output error")
                error.files = tuple(lost)
                marks = [mark for mark in marks if mark[2] not in lost]
        if error is None or marks:
            for inode, sequence, _ in marks:
                inode.made_durable(sequence)
            self._directory.commit(job.operation)
        job.done(job.token, error)

    # --------------------------------------------------------------------------------- faults

    def power_loss(self) -> None:
        """Keep all that is durable and a drawn prefix of what is pending; drop all flushes."""
        self._generation += 1
        self._waiting.clear()
        self._slowed.clear()
        self._busy_until = 0
        self.written = 0
        self._directory.commit_old(int(self._kernel.now))
        self._directory.lose(self._rng)
        for path in sorted(self._names):
            self._names[path].lose(self._rng)
        for volume in self._volumes:
            below = [inode for path, inode in self._names.items() if self._volume(path) is volume]
            volume.used, volume.deleted = sum([inode.size for inode in below]), []

    def slow(self, factor: float) -> None:
        """Make writes, flushes and reads take ``factor`` times as long; 1 is healthy."""
        assert factor > 0, factor
        if factor == self.slow_factor:
            return
        self.slow_factor = factor
        behind = [job for job in self._slowed if job.begins_us > self._kernel.now]
        self._slowed.clear()
        if behind:
            self._busy_until = behind[0].begins_us
        for job in behind:
            self._queue(job.moved())

    def stall(self) -> None:
        """Let no write or flush end until :meth:`resume`."""
        self.stalled = True

    def resume(self) -> None:
        """End a stall: flushes and writes that waited go on now, in order."""
        self.stalled = False
        waiting, self._waiting = self._waiting, []
        for job in waiting:
            if job.files or job.operation or job.size is not None:
                self._begin(job)
            else:
                job.callbacks = self._callbacks
                self._kernel.push(int(self._kernel.now), job)

    def fill(self, full: bool = True, prefix: str = "") -> None:
        """Refuse every write below ``prefix`` with DiskFull, or accept them again."""
        _set(self._full, prefix, full)

    def fail(self, failing: bool = True, prefix: str = "") -> None:
        """Refuse all but the names of the files below ``prefix``, or serve them again."""
        for refusing in (self._broken, self._full, self._unreadable, self._unflushable):
            _set(refusing, prefix, failing)

    def fail_reads(self, prefix: str) -> None:
        """Let reads of the paths that start with ``prefix`` raise ReadError."""
        self._unreadable[prefix] = None

    def heal_reads(self, prefix: str) -> None:
        """Undo one :meth:`fail_reads`."""
        self._unreadable.pop(prefix, None)

    def fail_flushes(self, failing: bool = True, prefix: str = "") -> None:
        """Let flushes of the files below ``prefix`` fail, or succeed again."""
        _set(self._unflushable, prefix, failing)

    def repair(self) -> None:
        """End all errors, slowness and stalls; damaged items stay."""
        for refusing in (self._broken, self._full, self._unreadable, self._unflushable):
            refusing.clear()
        self.slow(1.0)
        if self.stalled:
            self.resume()

    def bit_rot(self, path: str, index: int | None = None) -> int:
        """Damage one item (drawn if None) on this disk only, and return its index."""
        inode = self._inode(path)
        assert inode.items, f"{path} is empty"
        if index is None:
            index = int(self._rng.random() * len(inode.items))
        if type(inode.items[index]) is not Corrupt:
            inode.items[index] = Corrupt(inode.items[index])
        return index

    # --------------------------------------------------------------------------------- inside

    def _check_space(self, path: str, size: int) -> None:
        if self._broken:
            self._check(path)
        volume = self._volume(path)
        full = volume is not None and not volume.has_room(size, int(self._kernel.now))
        if volume is not None and full and not volume.told:
            volume.told = True
            self._on_full(volume.prefix, volume.capacity)
        if full or _below(self._full, path):
            raise DiskFull(path, "No space left on device")

    def _volume(self, path: str) -> Volume | None:
        return next((each for each in self._volumes if path.startswith(each.prefix)), None)

    def _use(self, path: str, size: int) -> None:
        volume = self._volume(path)
        if volume is not None:
            volume.used += size

    def _check(self, path: str) -> None:
        if _below(self._broken, path):
            raise DiskError(path, "Input/output error")

    def _inode(self, path: str) -> Inode:
        inode = self._names.get(path)
        if inode is None:
            raise FileNotFoundError(path)
        return inode


def _below(prefixes: dict[str, None], path: str) -> bool:
    return any(path.startswith(prefix) for prefix in prefixes)


def _set(prefixes: dict[str, None], prefix: str, on: bool) -> None:
    if on:
        prefixes[prefix] = None
    else:
        prefixes.pop(prefix, None)
