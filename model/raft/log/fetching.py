"""The follower's side of replication: one Fetch at a time, from the leader or to find it.

Models maybeSendFetchToBestNode and handleFetchResponse of KafkaRaftClient. A follower fetches from
its leader, or, while the connection to that one backs off, asks a random voter who leads; so does
an unattached replica. The offset of a voter's Fetch acknowledges what it has, so its log is made
durable by a Barrier before the next one. Observers flush nothing. Where the leader answers with a
snapshot, the follower fetches that in chunks (KIP-630), makes it durable, starts its log anew at its
end and fetches on; the fetch timeout goes on until a chunk arrives.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.effects import Barrier
from kafkasim.model.errors import Errors
from kafkasim.model.facts import MetadataSnapshot
from kafkasim.model.messages import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftFetchRequest,
    RaftFetchResponse,
)
from kafkasim.model.raft.quorum.states import Follower, Unattached
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.raft.client import RaftClient

LANE = "raft"
MAX_WAIT_MS = 500
RETRY_TIMER = (LANE, "fetch")
SNAPSHOT_ERRORS = (Errors.SNAPSHOT_NOT_FOUND, Errors.POSITION_OUT_OF_RANGE)


class Peer:
    """Another voter, with a connection for votes and one for fetches."""

    __slots__ = ("address", "busy", "client", "epoch", "fetch", "id", "on_fetch", "vote")

    def __init__(self, client: RaftClient, voter: int, address: str) -> None:
        timeout_ms = client.config.controller_quorum_request_timeout_ms
        self.address = address
        self.client = client
        self.id = voter
        self.vote = Channel(client.process, address, "raft-vote", LANE, timeout_ms)
        self.fetch = Channel(client.process, address, "raft-fetch", LANE, timeout_ms)
        self.busy = False  # a Fetch is on its way
        self.epoch = -1  # the epoch of that Fetch
        self.on_fetch = self._on_fetch  # bound once

    def _on_fetch(self, answer: Any, now: int) -> None:
        self.client.fetcher.on_answer(self, answer, now)


class Fetcher:
    """Keeps one Fetch on its way while the role asks for it."""

    __slots__ = ("active", "client", "following", "snapshot_max_bytes")

    def __init__(self, client: RaftClient) -> None:
        self.client = client
        self.snapshot_max_bytes = 8 * 1024 * 1024
        self.active: Peer | None = None
        self.following = False  # the active Fetch was sent by a follower of its epoch

    def poll(self, now: int) -> None:
        """Send the next Fetch, unless the one on its way serves the present role."""
        client = self.client
        role = client.state
        if client.halted:
            return
        if isinstance(role, Follower):
            peer = client.peers[role.leader]
            active = self.active
            if active is not None and (
                active is peer or (self.following and active.epoch == role.epoch)
            ):
                return
            if role.installing:
                return
            if peer.busy or not peer.fetch.ready(now):
                other = self._any_voter(now)
                if other is None:
                    self._later(now)
                    return
                peer = other
        elif isinstance(role, Unattached) and self.active is None:
            found = self._any_voter(now)
            if found is None:
                self._later(now)
                return
            peer = found
        else:
            return
        client.process.timers.cancel(RETRY_TIMER)
        self.active = peer
        self.following = isinstance(role, Follower)
        peer.busy = True
        peer.epoch = role.epoch
        peer.fetch.send(self._request(peer), now, peer.on_fetch)

    def _request(self, peer: Peer) -> RaftFetchRequest | FetchSnapshotRequest:
        client = self.client
        role = client.state
        if isinstance(role, Follower) and peer.id == role.leader:
            snapshot = role.fetching_snapshot
            if snapshot is not None:
                position = client.snapshots.store.written(snapshot)
                return FetchSnapshotRequest(
                    client.replica_id, role.epoch, snapshot, position, self.snapshot_max_bytes
                )
        return RaftFetchRequest(
            client.replica_id,
            role.epoch,
            client.log.log_end_offset,
            client.last_log_epoch,
            MAX_WAIT_MS,
            replica_directory_id=client.directory_id,
            high_watermark=client.high_watermark,
        )

    def on_answer(self, peer: Peer, answer: Any, now: int) -> None:
        """Take the answer to a Fetch and go on."""
        client = self.client
        epoch = peer.epoch
        peer.busy = False
        consumed = client.halted or type(answer) is Failed
        if not consumed and answer.error is not Errors.NONE:
            if answer.error in SNAPSHOT_ERRORS:
                self._forget_snapshot()
            elif type(answer) is RaftFetchResponse:
                client.voter_sets.note_endpoint(answer.leader_id, answer.leader_endpoint)
        if not consumed:  # while this Fetch still counts as active: a new leader may be this peer
            consumed = client.handle_common(
                answer.error, answer.leader_id, answer.leader_epoch, now
            )
        if self.active is not peer:
            return
        self.active = None
        role = client.state
        if isinstance(role, Follower) and not consumed:
            if role.leader == peer.id and role.epoch == epoch:
                if type(answer) is FetchSnapshotResponse:
                    self._take_chunk(role, answer, now)
                else:
                    self._apply(role, answer, now)
            if not client.process.timers.armed(RETRY_TIMER):
                self.poll(now)
        elif isinstance(role, Follower) and role.epoch > epoch:
            self.poll(now)
        else:
            self._later(now)

    def _apply(self, role: Follower, response: RaftFetchResponse, now: int) -> None:
        client = self.client
        log = client.log
        if response.snapshot_id is not None:
            role.fetching_snapshot = response.snapshot_id
            client.snapshots.store.begin(response.snapshot_id)
            return
        try:
            if response.diverging_epoch is not None:
                self._truncate(*response.diverging_epoch, now)
            elif response.batches:
                result = log.append_as_follower(
                    response.batches, role.epoch, client.process.wall_ms(now)
                )
                if result.error is Errors.CORRUPT_MESSAGE:
                    self._later(now)  # read again; the fetch timeout goes on
                    return
                if result.error is not Errors.NONE:
                    client.halt(f"append at {log.log_end_offset}: {result.error.name}")
                    return
                for batch in response.batches:
                    if batch.control:
                        client.voter_sets.appended(batch, now)
                if client.rules.must_flush_before_fetch(client.is_voter):
                    client.process.out.append(Barrier(log.flush_files()))
                    log.flushed(log.log_end_offset)
        except DiskError as error:
            client.halt(str(error))
            return
        end_offset = client.log_end_offset = log.log_end_offset
        role.has_fetched = True
        client.await_fetch(now)
        high_watermark = response.high_watermark
        if high_watermark > client.high_watermark:
            client.raise_high_watermark(
                high_watermark if high_watermark < end_offset else end_offset, now
            )

    def _take_chunk(self, role: Follower, response: FetchSnapshotResponse, now: int) -> None:
        """Write the next chunk of the snapshot (handleFetchSnapshotResponse)."""
        client = self.client
        store = client.snapshots.store
        snapshot = role.fetching_snapshot
        if snapshot != response.snapshot_id or store.written(snapshot) != response.position:
            self._forget_snapshot()
            return
        try:
            for chunk, _ in response.items:
                store.append(snapshot, chunk)
        except DiskError as error:
            client.halt(str(error))
            return
        client.await_fetch(now)
        if store.written(snapshot) == response.size:
            role.installing = True
            client.snapshots.install(snapshot, partial(self._installed, role, snapshot), now)

    def _installed(self, role: Follower, snapshot: tuple[int, int], now: int) -> None:
        """The snapshot is durable: the log starts anew at its end."""
        client = self.client
        role.fetching_snapshot = None
        role.installing = False
        try:
            if role is not client.state:  # a Fetch may be on its way from the old log end
                client.snapshots.store.delete(snapshot)
                return
            client.snapshots.truncate_to(snapshot)
            client.voter_sets.loaded(snapshot[0], client.snapshots.voters(snapshot), now)
        except DiskError as error:
            client.halt(str(error))
            return
        client.process.out.append(MetadataSnapshot("loaded", *snapshot))
        client.deliver_snapshot(snapshot, now)
        role.has_fetched = True
        self.poll(now)

    def _forget_snapshot(self) -> None:
        role = self.client.state
        if isinstance(role, Follower):
            role.fetching_snapshot = None

    def _truncate(self, epoch: int, end_offset: int, now: int) -> None:
        """Cut the log where it leaves the leader's (truncateToEndOffset)."""
        client = self.client
        log = client.log
        known, own_end = log.epochs.end_offset_for(epoch, log.log_end_offset)
        offset = min(own_end, end_offset) if known == epoch else max(own_end, log.log_start_offset)
        if offset < client.high_watermark:
            client.halt(f"truncation to {offset}, below {client.high_watermark}")
            return
        log.truncate_to(offset)
        client.voter_sets.truncated(offset, now)

    def _any_voter(self, now: int) -> Peer | None:
        free = [p for p in self.client.voter_sets.peers() if not p.busy and p.fetch.ready(now)]
        return free[int(self.client.process.rng.random() * len(free))] if free else None

    def _later(self, now: int) -> None:
        """Poll again after the retry backoff."""
        if self.active is None:
            client = self.client
            backoff_us = client.config.controller_quorum_retry_backoff_ms * 1000
            client.process.timers.arm(RETRY_TIMER, now + backoff_us, LANE, self.poll)
