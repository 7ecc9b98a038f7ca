"""What the owner of the replicated state is told: commits in order, snapshots, who leads.

Models KafkaRaftClient.updateListenersProgress and its ListenerContext (fireHandleCommit,
fireHandleSnapshot, maybeFireLeaderChange).
"""

from __future__ import annotations

from typing import Any, Protocol, cast

from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.log.snapshot_store import SnapshotId
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import DiskError

READ_BYTES = 8 * 1024 * 1024


class Listener(Protocol):
    """The owner of the replicated state (RaftClient.Listener); called on lane ``raft``."""

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """A leader is known, or none (−1). That this replica leads, the listener hears only after
        it was given every commit of earlier epochs."""

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Batches are committed, in order, each once. Control batches are not for the listener."""


class SnapshotListener(Listener, Protocol):
    """A listener that creates snapshots, and so must be able to load one."""

    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Replace the state by ``values``, which stand for everything below ``end_offset``."""


class Delivery:
    """How far the listener has been told."""

    __slots__ = ("_announced", "_delivered", "_listener", "_log", "_quorum")

    def __init__(self, quorum: QuorumState, log: ReplicatedLog, listener: Listener) -> None:
        self._quorum = quorum
        self._log = log
        self._listener = listener
        self._delivered = 0  # the listener was given everything below it
        self._announced = (NONE, 0)  # (leader, epoch)

    def commit(self, high_watermark: int, now: int) -> None:
        """Raise the high watermark and give the listener everything below it."""
        log = self._log
        if high_watermark <= log.high_watermark:
            return
        assert high_watermark <= log.end_offset, (high_watermark, log.end_offset)
        log.update_high_watermark(high_watermark)
        while self._delivered < high_watermark:
            batches = log.log.read(self._delivered, READ_BYTES, high_watermark)
            if not batches or type(batches[-1]) is not RecordBatch:
                self._quorum.halt(f"cannot read {log.log.tp} at {self._delivered}")
                return
            self._delivered = batches[-1].last_offset + 1
            self._listener.on_commit(batches, high_watermark, now)

    def load_snapshot(self, snapshot: SnapshotId, now: int) -> None:
        """Count a durable snapshot as committed, and give it to a listener that is behind it."""
        end_offset, epoch = snapshot
        if end_offset > self._log.high_watermark:
            self._log.update_high_watermark(end_offset)
        if end_offset <= self._delivered:
            return
        try:
            chunks = self._log.snapshots.read(snapshot)
        except DiskError as error:
            self._quorum.halt(str(error))
            return
        self._delivered = end_offset
        values = [each for chunk in chunks[1:] for each in chunk]
        cast("SnapshotListener", self._listener).on_snapshot(end_offset, epoch, values, now)

    def announce(self, now: int) -> None:
        """Tell the listener who leads, if that has changed."""
        role = self._quorum.role
        leader = role.leader
        if isinstance(role, Leader) and not role.announced:
            leader = NONE
        if self._announced != (leader, role.epoch):
            self._announced = (leader, role.epoch)
            self._listener.on_leader_change(leader, role.epoch, now)
