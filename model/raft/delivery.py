"""What the owner of the replicated state is told: commits in order, snapshots, who leads.

Models the listener contexts of KafkaRaftClient (updateListenersProgress, fireHandleCommit,
handleLoadSnapshot, handleLeaderChange).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkasim.model.raft.quorum.quorum_state import NONE
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from typing import Any

    from kafkasim.model.raft.client import RaftClient
    from kafkasim.model.raft.log.snapshots import SnapshotId

READ_BYTES = 8 * 1024 * 1024


class Listener(Protocol):
    """Who owns the replicated state (RaftClient.Listener); called on lane ``raft``.

    An owner that lets snapshots be taken also has ``on_snapshot(end_offset, epoch, values, now)``:
    what it has is to be replaced by the values, which stand for all below ``end_offset``.
    """

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """A leader is known (or −1). This replica itself: only once it was given all before."""

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Batches are committed, in order, each once; skip those with ``control``."""


class Delivery:
    """How far the listener has been told."""

    __slots__ = ("_announced", "_delivered", "client", "listener")

    def __init__(self, client: RaftClient, listener: Any) -> None:
        self.client = client
        self.listener = listener
        self._delivered = 0  # the listener has all below it
        self._announced = (NONE, 0)

    def commit(self, high_watermark: int, now: int) -> None:
        """Hand over all below ``high_watermark`` that has not been."""
        client = self.client
        log = client.log
        while self._delivered < high_watermark:
            batches = log.read(self._delivered, READ_BYTES, high_watermark)
            if not batches or type(batches[-1]) is not RecordBatch:
                client.halt(f"cannot read {log.tp} at {self._delivered}")
                return
            self._delivered = batches[-1].last_offset + 1
            self.listener.on_commit(batches, high_watermark, now)

    def snapshot(self, snapshot: SnapshotId, now: int) -> None:
        """Hand over a snapshot that is ahead of the listener."""
        client = self.client
        end_offset, epoch = snapshot
        if end_offset <= self._delivered:
            return
        try:
            chunks = client.snapshots.store.read(snapshot)
        except DiskError as error:
            client.halt(str(error))
            return
        self._delivered = end_offset
        values = [each for chunk in chunks[1:] for each in chunk]
        self.listener.on_snapshot(end_offset, epoch, values, now)

    def announce(self, now: int) -> None:
        """Tell who leads, if that is news."""
        role = self.client.state
        leader = role.leader
        if isinstance(role, Leader) and not role.announced:
            leader = NONE
        if self._announced != (leader, role.epoch):
            self._announced = (leader, role.epoch)
            self.listener.on_leader_change(leader, role.epoch, now)
