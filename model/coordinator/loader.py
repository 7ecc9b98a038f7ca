"""Reading a partition's log into a coordinator's shard (CoordinatorLoaderImpl).

One thread loads one partition after the other. It reads offsets.load.buffer.size bytes at a time
from the disk, replays their batches, and goes on until the log end. Meanwhile clients are answered
COORDINATOR_LOAD_IN_PROGRESS. A partition whose log is empty is loaded at once. A load that fails is
not tried again before the next election (CoordinatorRuntime, CoordinatorState.FAILED).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Generic, Protocol, TypeVar

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.effects import Read
from kafkasim.model.records import Record, RecordBatch

CORRUPT = "a batch is corrupt"


class ReplayFailed(Exception):
    """A record does not fit what the records before it have made (IllegalStateException).

    A log that any coordinator has written has no such record. A replica can have one that was away
    for longer than delete.retention.ms: it still has a value, and the tombstone is gone.
    """


class Shard(Protocol):
    """The state that follows from the records of one partition. Both ways raise ReplayFailed."""

    context: CoordinatorContext

    def replay(self, record: Record, end_offset: int, now_ms: int) -> None:
        """Apply a record of the log; ``end_offset`` is the offset after its batch."""

    def replay_transactional(self, batch: RecordBatch, now_ms: int) -> None:
        """Apply a batch of a transaction, or the control batch that ends one."""


S = TypeVar("S", bound=Shard)
LoadContinues = Callable[[int, int, int], bool]  # (next offset, log start, log end)


class CoordinatorLoader(Generic[S]):
    """Loads shards in the order in which they were asked for.

    ``buffer_size`` is in bytes. ``is_wanted(shard)`` says whether this broker still owns it; if
    not, its load stops. ``on_end(shard, failure, now)`` is called for each other shard; ``failure``
    is "", or says that a batch is corrupt or that a record does not fit.
    """

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        buffer_size: int,
        load_continues: LoadContinues,
        is_wanted: Callable[[S], bool],
        on_end: Callable[[S, str, int], None],
    ) -> None:
        self._runtime = runtime
        self._buffer_size = buffer_size
        self._load_continues = load_continues
        self._is_wanted = is_wanted
        self._on_end = on_end
        self._waiting: deque[S] = deque()
        self._busy = False

    def load(self, shard: S, now: int) -> None:
        """Load a shard once those before it are loaded. On the loader's lane."""
        self._waiting.append(shard)
        if not self._busy:
            self._next(now)

    def _next(self, now: int) -> None:
        self._busy = False
        while self._waiting and not self._busy:
            shard = self._waiting.popleft()
            if self._is_wanted(shard):
                self._read(shard, self._runtime.log.start(shard.context.tp), now)

    def _read(self, shard: S, offset: int, now: int) -> None:
        """Read the next batches, or end the load."""
        log, tp = self._runtime.log, shard.context.tp
        batches: tuple[RecordBatch, ...] = ()
        if self._load_continues(offset, log.start(tp), log.end(tp)):
            batches = log.read(tp, offset, self._buffer_size)
        self._busy = bool(batches)
        if batches:
            size = sum([batch.size for batch in batches])
            self._runtime.out.append(Read(size, partial(self._replay, shard, batches)))
        else:
            self._on_end(shard, "", now)

    def _replay(self, shard: S, batches: tuple[RecordBatch, ...], _: None, now: int) -> None:
        if not self._is_wanted(shard):
            self._next(now)
            return
        failure = self._replayed(shard, batches, self._runtime.wall_ms(now))
        if failure:
            self._on_end(shard, failure, now)
            self._next(now)
            return
        self._read(shard, shard.context.last_written, now)
        if not self._busy:
            self._next(now)

    def _replayed(self, shard: S, batches: tuple[RecordBatch, ...], now_ms: int) -> str:
        """Apply batches; return why the partition cannot be loaded, or ""."""
        context = shard.context
        for batch in batches:
            if type(batch) is not RecordBatch:
                return CORRUPT
            context.last_written = batch.base_offset  # up to where the state reflects the log
            try:
                if batch.transactional:
                    shard.replay_transactional(batch, now_ms)
                elif not batch.control:
                    for record in batch.records:
                        shard.replay(record, batch.next_offset, now_ms)
            except ReplayFailed as failure:
                return str(failure)
            context.last_written = batch.next_offset
        return ""
