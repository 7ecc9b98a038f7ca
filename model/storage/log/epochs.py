"""The leader-epoch cache of one log (Kafka: LeaderEpochFileCache, KIP-101, KIP-279).

It maps each leader epoch to the offset at which it started; epochs and offsets strictly increase.
It answers where an epoch ended, and so tells a follower where its log diverged from the leader's.

An entry is durable before its first batch is sent on, because a missing entry hides a divergence.
A truncation is flushed in the background: a stale entry does no harm (KAFKA-16541). Until 3.6 the
thread that truncates waits for the flush (before KAFKA-15046).

Left out: the cache of remote log segments (tiered storage).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from typing import Any

from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.storage.checkpoints import CheckpointFile
from kafkasim.model.storage.files import FLUSH_POOL, DiskError, Files
from kafkasim.model.storage.rules import StorageRules

UNDEFINED = (-1, -1)


class LeaderEpochCache:
    """Epochs and their start offsets. ``latest_epoch`` and ``latest_start`` are −1 if it is empty.

    ``on_disk_error`` hears of a background flush that failed.
    """

    __slots__ = (
        "_epochs",
        "_file",
        "_on_disk_error",
        "_out",
        "_rules",
        "_starts",
        "latest_epoch",
        "latest_start",
    )

    def __init__(
        self,
        files: Files,
        out: list[Any],
        path: str,
        rules: StorageRules,
        on_disk_error: Callable[[DiskError], None],
    ) -> None:
        self._file = CheckpointFile(files, path)
        self._out = out
        self._rules = rules
        self._on_disk_error = on_disk_error
        self._epochs: list[int] = []
        self._starts: list[int] = []
        for epoch, start in self._file.read() or ():
            self._epochs.append(epoch)
            self._starts.append(start)
        self._set_latest()

    @property
    def entries(self) -> list[tuple[int, int]]:
        """The entries as (epoch, start offset), oldest first."""
        return list(zip(self._epochs, self._starts, strict=True))

    def assign(self, epoch: int, start: int) -> bool:
        """Record durably that ``epoch`` starts at ``start``; return whether the cache changed.

        Later epochs, and epochs that start at or above ``start``, are removed.
        """
        assert epoch >= 0, (epoch, start)
        assert start >= 0, (epoch, start)
        if not self._assign(epoch, start):
            return False
        self._out.append(Barrier((self._write(),)))
        return True

    def assign_all(self, entries: list[tuple[int, int]]) -> None:
        """Record several epochs with one write (recovery)."""
        changed = [self._assign(epoch, start) for epoch, start in entries]
        if any(changed):
            self._out.append(Barrier((self._write(),)))

    def end_offset_for(self, epoch: int, log_end_offset: int) -> tuple[int, int]:
        """Return the largest known epoch ≤ ``epoch`` and its end offset.

        (−1, −1) if ``epoch`` is later than every entry. Before the first entry, ``epoch`` itself is
        returned, with the offset at which the first entry starts.
        """
        if epoch < 0:
            return UNDEFINED
        if epoch == self.latest_epoch:
            return epoch, log_end_offset
        higher = bisect_right(self._epochs, epoch)
        if higher == len(self._epochs):
            return UNDEFINED
        if higher == 0:
            return epoch, self._starts[0]
        return self._epochs[higher - 1], self._starts[higher]

    def epoch_for(self, offset: int) -> int:
        """Return the epoch of ``offset``; −1 if it lies before the first entry."""
        floor = bisect_right(self._starts, offset)
        return self._epochs[floor - 1] if floor else -1

    def truncate_from_end(self, offset: int) -> None:
        """Remove the epochs that start at or above ``offset``, the new log end."""
        if self.latest_start < offset:
            return
        while self._starts and self._starts[-1] >= offset:
            self._starts.pop()
            self._epochs.pop()
        self._truncated()

    def truncate_from_start(self, offset: int) -> None:
        """Remove the epochs that end at or below ``offset``, the new log start.

        The epoch that covers ``offset`` starts there from now on.
        """
        dropped = bisect_right(self._starts, offset)
        if dropped == 0 or (dropped == 1 and self._starts[0] == offset):
            return
        kept = self._rules.keeps_epoch_of_log_start()
        self._epochs[:dropped] = [self._epochs[dropped - 1]] if kept else []
        self._starts[:dropped] = [offset] if kept else []
        self._truncated()

    def clear(self) -> None:
        """Remove every entry."""
        if self._epochs:
            self._epochs.clear()
            self._starts.clear()
            self._truncated()

    def _assign(self, epoch: int, start: int) -> bool:
        if epoch == self.latest_epoch and start >= self.latest_start:
            return False
        while self._epochs and (self._epochs[-1] >= epoch or self._starts[-1] >= start):
            self._epochs.pop()
            self._starts.pop()
        self._epochs.append(epoch)
        self._starts.append(start)
        self._set_latest()
        return True

    def _truncated(self) -> None:
        self._set_latest()
        if not self._rules.syncs_truncated_epochs():
            self._file.write_in_place(*self._content())
        elif self._rules.waits_for_truncated_epochs():
            self._out.append(Barrier((self._write(),)))
        else:
            self._out.append(Flush((self._write(),), self._on_flushed, FLUSH_POOL))

    def _write(self) -> str:
        return self._file.write(*self._content())

    def _content(self) -> tuple[tuple[tuple[int, int], ...], int]:
        return tuple(zip(self._epochs, self._starts, strict=True)), 8 + 16 * len(self._epochs)

    def _set_latest(self) -> None:
        self.latest_epoch = self._epochs[-1] if self._epochs else -1
        self.latest_start = self._starts[-1] if self._starts else -1

    def _on_flushed(self, error: str | None, now: int) -> None:
        if error is not None:
            self._on_disk_error(DiskError("leader-epoch-checkpoint", error))
