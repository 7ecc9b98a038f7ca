"""Serving the chunks of a snapshot: FetchSnapshot (KIP-630).

Models KafkaRaftClient.handleFetchSnapshotRequest. A voter's FetchSnapshot counts for check quorum,
as its Fetch does.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchSnapshotRequest, FetchSnapshotResponse
from kafkasim.model.raft.context import RaftContext
from kafkasim.model.raft.leader.check_quorum import CheckQuorum
from kafkasim.model.raft.log.snapshot_store import SnapshotStore, chunk_size
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.storage.files import DiskError


class SnapshotServer:
    """Serves the complete snapshots of a leader."""

    def __init__(
        self,
        context: RaftContext,
        quorum: QuorumState,
        store: SnapshotStore,
        check_quorum: CheckQuorum,
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._store = store
        self._check_quorum = check_quorum

    def on_fetch_snapshot(self, item: Request, now: int) -> None:
        """Answer with chunks from the requested position on, at least one."""
        request: FetchSnapshotRequest = item.message
        role = self._quorum.role
        error = self._quorum.check_leader_epoch(request.current_leader_epoch)
        if error is Errors.NONE:
            error = self._problem(request)
        if error is not Errors.NONE or not isinstance(role, Leader):
            self._refuse(item, error)
            return
        replica = (request.replica_id, request.replica_directory_id)
        self._check_quorum.fetched(role, replica, now)
        try:
            response = self._chunks(role, request)
        except DiskError:
            self._refuse(item, Errors.KAFKA_STORAGE_ERROR)
        else:
            self._context.respond(item, response)

    def _refuse(self, item: Request, error: Errors) -> None:
        quorum = self._quorum
        response = FetchSnapshotResponse(error, quorum.leader_id, quorum.epoch)
        if not self._context.rules.writes_snapshot_refusals():
            response = FetchSnapshotResponse(Errors.UNKNOWN_SERVER_ERROR, NONE, NONE)
        self._context.respond(item, response)

    def _problem(self, request: FetchSnapshotRequest) -> Errors:
        """Return NONE if there is such a snapshot, and the position is in it."""
        if request.snapshot_id not in self._store.ids:
            return Errors.SNAPSHOT_NOT_FOUND
        inside = 0 <= request.position < self._store.size(request.snapshot_id)
        return Errors.NONE if inside else Errors.POSITION_OUT_OF_RANGE

    def _chunks(self, role: Leader, request: FetchSnapshotRequest) -> FetchSnapshotResponse:
        leader, snapshot = self._context.node_id, request.snapshot_id
        size = self._store.size(snapshot)
        items: list[tuple[Any, int]] = []
        position = taken = 0
        for chunk in self._store.read(snapshot):
            bytes_ = chunk_size(chunk)
            if position >= request.position:
                if items and taken + bytes_ > request.max_bytes:
                    break
                items.append((chunk, bytes_))
                taken += bytes_
            position += bytes_
        return FetchSnapshotResponse(
            Errors.NONE, leader, role.epoch, snapshot, size, request.position, tuple(items)
        )
