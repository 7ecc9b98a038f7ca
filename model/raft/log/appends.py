"""The leader's own log: accepting records, batching them, appending, flushing, committing.

Models BatchAccumulator, flushLeaderLog and LeaderState.maybeUpdateHighWatermark. Offsets are given
when records are accepted; they enter the log together after the linger or when a batch is full.
The high watermark counts the leader's own log up to its last finished flush.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Flush
from kafkasim.model.errors import Errors
from kafkasim.model.raft.quorum.states import Leader, LeaderChange
from kafkasim.model.records import Record, RecordBatch, batch_of
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.raft.client import RaftClient

LANE = "raft"
LINGER_TIMER = (LANE, "linger")
RECORD_SIZE = 100
MAX_BATCH_BYTES = 8 * 1024 * 1024


class Appends:
    """What a leader accepts and writes; empty in every other role."""

    __slots__ = ("_batch_bytes", "_batches", "_max_batch_bytes", "_next_offset", "client")

    def __init__(self, client: RaftClient) -> None:
        self.client = client
        self._batches: list[list[Record]] = []  # accepted, not yet in the log
        self._batch_bytes = 0  # of the last of them
        # Kafka refuses segments of less than 8 MiB; where one is smaller, a batch still fits it.
        segment_bytes = client.config.metadata_log_segment_bytes
        self._max_batch_bytes = min(MAX_BATCH_BYTES, segment_bytes // 2)
        self._next_offset = 0  # the offset the next accepted record will get

    def open_epoch(self, role: Leader, granting: tuple[int, ...], now: int) -> None:
        """Begin the epoch with its LeaderChange record, and accept records behind it."""
        client = self.client
        change = LeaderChange(client.node_id, tuple(client.voters), granting)
        record = Record(None, change, RECORD_SIZE, client.process.wall_ms(now))
        self._append(role, batch_of((record,), control=True), now)
        self._flush(role)
        self._next_offset = client.log_end_offset

    def accept(self, records: list[object], now: int) -> int:
        """Take records into one batch; return the offset of the last."""
        assert records, "nothing to append"
        client = self.client
        timers = client.process.timers
        size = len(records) * RECORD_SIZE
        timestamp_ms = client.process.wall_ms(now)
        accepted = [Record(None, record, RECORD_SIZE, timestamp_ms) for record in records]
        if self._batches and self._batch_bytes + size <= self._max_batch_bytes:
            self._batches[-1].extend(accepted)
            self._batch_bytes += size
        else:
            linger_ms = 0 if self._batches else client.config.controller_quorum_append_linger_ms
            timers.arm(LINGER_TIMER, now + linger_ms * 1000, LANE, self._drain)
            self._batches.append(accepted)
            self._batch_bytes = size
        self._next_offset += len(accepted)
        return self._next_offset - 1

    def append_control(self, role: Leader, content: Any, now: int) -> int | None:
        """Append a control record of its own behind all that was accepted; return its offset."""
        client = self.client
        client.process.timers.cancel(LINGER_TIMER)
        self._drain(now)
        if client.halted:
            return None
        offset = client.log_end_offset
        record = Record(None, content, RECORD_SIZE, client.process.wall_ms(now))
        self._append(role, batch_of((record,), control=True), now)
        self._next_offset = client.log_end_offset
        if client.halted:
            return None
        self._flush(role)
        return offset

    def drop(self) -> None:
        """Forget what was accepted and not appended: the leadership ended."""
        self._batches = []
        self.client.process.timers.cancel(LINGER_TIMER)

    def update_high_watermark(self, role: Leader, now: int) -> None:
        """Advance the high watermark over what a majority holds."""
        client = self.client
        own = client.rules.leader_end_offset(client.log_end_offset, role.flushed)
        offsets = (
            [own, *role.end_offsets.values()] if client.is_voter else role.end_offsets.values()
        )
        reached = client.rules.high_watermark(offsets, role.epoch_start, role.high_watermark)
        if reached > role.high_watermark:
            role.high_watermark = reached
            client.raise_high_watermark(reached, now)
            if not role.announced:
                role.announced = True
                client.delivery.announce(now)
            if client.server.wakes:
                client.server.wake(now)
            client.voter_sets.high_watermark_moved(role, now)

    def _drain(self, now: int) -> None:
        client = self.client
        role = client.state
        batches, self._batches = self._batches, []
        if client.halted or not batches or not isinstance(role, Leader):
            return
        for records in batches:
            self._append(role, batch_of(tuple(records)), now)
        assert client.halted or client.log_end_offset == self._next_offset, self._next_offset
        self._flush(role)
        client.server.wake(now)

    def _append(self, role: Leader, batch: RecordBatch, now: int) -> None:
        client = self.client
        try:
            result = client.log.append_as_leader(
                batch, role.epoch, client.process.wall_ms(now), origin="raft"
            )
        except DiskError as error:
            client.halt(str(error))
            return
        assert result.error is Errors.NONE, result
        client.log_end_offset = client.log.log_end_offset
        if batch.control:
            assert result.batch is not None
            client.voter_sets.appended(result.batch, now)

    def _flush(self, role: Leader) -> None:
        client = self.client
        handler = partial(self._on_flushed, role, client.log_end_offset)
        client.process.out.append(Flush(client.log.flush_files(), handler))

    def _on_flushed(self, role: Leader, offset: int, error: str | None, now: int) -> None:
        client = self.client
        if error is not None:
            client.halt(error)
        elif role is client.state and not client.halted:
            client.log.flushed(offset)
            role.flushed = max(role.flushed, offset)
            self.update_high_watermark(role, now)
