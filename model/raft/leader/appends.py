"""The leader's own log: accepting records, batching them, appending, flushing, committing.

Models BatchAccumulator, KafkaRaftClient.flushLeaderLog and LeaderState.maybeUpdateHighWatermark.
Records get their offsets when they are accepted; they enter the log together after the linger, or
when a batch is full. What is appended counts first for the high watermark, then answers parked
Fetches, then is flushed (flushLeaderLog).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Protocol

from kafkasim.model.effects import Flush
from kafkasim.model.errors import Errors
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.log.snapshot_store import RECORD_SIZE
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import Leader, LeaderChange
from kafkasim.model.raft.quorum.voters import VoterSets
from kafkasim.model.records import Record, RecordBatch, batch_of
from kafkasim.model.storage.files import DiskError

LINGER_TIMER = (LANE, "linger")
MAX_BATCH_BYTES = 8 * 1024 * 1024


class LogProgress(Protocol):
    """What follows when the leader's log grows or its high watermark rises."""

    def log_grew(self, now: int) -> None: ...
    def high_watermark_rose(self, role: Leader, now: int) -> None: ...


class Appends:
    """The records that a leader has accepted, and their way into the log. Empty in other roles."""

    __slots__ = (
        "_batch_bytes",
        "_batches",
        "_context",
        "_log",
        "_max_batch_bytes",
        "_next_offset",
        "_progress",
        "_quorum",
        "_voters",
    )

    def __init__(
        self,
        context: RaftContext,
        quorum: QuorumState,
        voters: VoterSets,
        log: ReplicatedLog,
        progress: LogProgress,
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._voters = voters
        self._log = log
        self._progress = progress
        self._batches: list[list[Record]] = []  # accepted, not yet in the log
        self._batch_bytes = 0  # of the last of them
        # Kafka refuses segments of less than 8 MiB; where one is smaller, a batch still fits it.
        segment_bytes = context.config.metadata_log_segment_bytes
        self._max_batch_bytes = min(MAX_BATCH_BYTES, segment_bytes // 2)
        self._next_offset = 0  # the offset that the next accepted record will get

    def open_epoch(self, role: Leader, granting: tuple[int, ...], now: int) -> None:
        """Begin the epoch with its LeaderChange record; other records are accepted behind it."""
        context = self._context
        change = LeaderChange(context.node_id, tuple(self._voters.voters), granting)
        record = Record(None, change, RECORD_SIZE, context.process.wall_ms(now))
        self._append(role, batch_of((record,), control=True), now)
        self._next_offset = self._log.end_offset
        self._grew(role, now)

    def accept(self, records: list[object], now: int) -> int:
        """Take records into one batch; return the offset of the last one."""
        assert records, "nothing to append"
        context = self._context
        size = len(records) * RECORD_SIZE
        timestamp_ms = context.process.wall_ms(now)
        accepted = [Record(None, record, RECORD_SIZE, timestamp_ms) for record in records]
        if self._batches and self._batch_bytes + size <= self._max_batch_bytes:
            self._batches[-1].extend(accepted)
            self._batch_bytes += size
        else:
            linger_ms = 0 if self._batches else context.config.controller_quorum_append_linger_ms
            context.timers.arm(LINGER_TIMER, now + linger_ms * 1000, LANE, self._drain)
            self._batches.append(accepted)
            self._batch_bytes = size
        self._next_offset += len(accepted)
        return self._next_offset - 1

    def append_control(self, role: Leader, content: Any, now: int) -> int | None:
        """Append a control record behind every accepted record; return its offset.

        None if the disk refused and the replica halted.
        """
        context = self._context
        context.timers.cancel(LINGER_TIMER)
        self._drain(now)
        if self._quorum.halted:
            return None
        offset = self._log.end_offset
        record = Record(None, content, RECORD_SIZE, context.process.wall_ms(now))
        self._append(role, batch_of((record,), control=True), now)
        self._next_offset = self._log.end_offset
        if self._quorum.halted:
            return None
        self._grew(role, now)
        return offset

    def drop(self) -> None:
        """Forget the records that are accepted but not appended: the leadership ended."""
        self._batches = []
        self._context.timers.cancel(LINGER_TIMER)

    def update_high_watermark(self, role: Leader, now: int) -> None:
        """Raise the high watermark to the offset that a majority of the voters has reached."""
        rules = self._context.rules
        others = role.end_offsets.values()
        own = rules.leader_end_offset(self._log.end_offset, role.flushed_offset, not others)
        offsets = [own, *others] if self._voters.is_voter else others
        reached = rules.high_watermark(offsets, role.epoch_start, role.high_watermark)
        if reached > role.high_watermark:
            role.high_watermark = reached
            self._progress.high_watermark_rose(role, now)

    def _drain(self, now: int) -> None:
        role = self._quorum.role
        batches, self._batches = self._batches, []
        if self._quorum.halted or not batches or not isinstance(role, Leader):
            return
        for records in batches:
            self._append(role, batch_of(tuple(records)), now)
        end_offset = self._log.end_offset
        assert self._quorum.halted or end_offset == self._next_offset, self._next_offset
        self._grew(role, now)

    def _append(self, role: Leader, batch: RecordBatch, now: int) -> None:
        now_ms = self._context.process.wall_ms(now)
        try:
            result = self._log.append_as_leader(batch, role.epoch, now_ms, now)
        except DiskError as error:
            self._quorum.halt(str(error))
            return
        assert result.error is Errors.NONE, result

    def _grew(self, role: Leader, now: int) -> None:
        """Count what was appended, then flush it (KafkaRaftClient.flushLeaderLog)."""
        self.update_high_watermark(role, now)
        self._progress.log_grew(now)
        handler = partial(self._on_flushed, role, self._log.end_offset)
        self._context.out.append(Flush(self._log.log.flush_files(), handler))

    def _on_flushed(self, role: Leader, offset: int, error: str | None, now: int) -> None:
        if error is not None:
            self._quorum.halt(error)
        elif role is self._quorum.role and not self._quorum.halted:
            self._log.log.local.flushed(offset)
            role.flushed_offset = max(role.flushed_offset, offset)
            self.update_high_watermark(role, now)
