"""The follower's side of replication: one Fetch at a time, to the leader or to find it.

Models maybeSendFetchToBestNode, handleFetchResponse and handleFetchSnapshotResponse of
KafkaRaftClient. A follower fetches from its leader. When that Fetch failed, or the connection to
the leader backs off, it asks a random voter who leads; an unattached replica does the same. The
offset of a voter's Fetch acknowledges everything below, so a Barrier makes its log durable before
the next Fetch leaves. Observers flush nothing.

If the leader answers with a snapshot, the follower fetches that in chunks (KIP-630), makes it
durable, starts its log anew at its end and fetches on. Each chunk restarts the fetch timeout. If it
is refused, the follower begins again with a Fetch. Kafka's follower does so when it next takes the
leader for one of its bootstrap servers, whose connections have backoffs of their own; here the
Fetch goes to another voter, or after the backoff to the leader.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Barrier
from kafkasim.model.errors import Errors
from kafkasim.model.facts import MetadataSnapshot
from kafkasim.model.messages import (
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftFetchRequest,
    RaftFetchResponse,
)
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.delivery import Delivery
from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.log.snapshots import Snapshots
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.quorum.election_timer import ElectionTimer
from kafkasim.model.raft.quorum.elections import Elections
from kafkasim.model.raft.quorum.peers import Peer, Peers
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import Follower, Role, Unattached
from kafkasim.model.raft.quorum.voters import VoterSets
from kafkasim.model.storage.files import DiskError

RETRY_TIMER = (LANE, "fetch")
SNAPSHOT_MAX_BYTES = 8 * 1024 * 1024
SNAPSHOT_ERRORS = (Errors.SNAPSHOT_NOT_FOUND, Errors.POSITION_OUT_OF_RANGE)


class QuorumFetcher:
    """Keeps one Fetch under way while the role asks for it.

    A Fetch that an earlier role sent may still be unanswered: its peer stays ``fetching``, but only
    the answer of the active Fetch is applied.
    """

    __slots__ = (
        "_active",
        "_context",
        "_delivery",
        "_elections",
        "_followed_epoch",
        "_log",
        "_max_wait_ms",
        "_peers",
        "_quorum",
        "_snapshots",
        "_timer",
        "_voters",
        "snapshot_max_bytes",
    )

    def __init__(
        self,
        context: RaftContext,
        quorum: QuorumState,
        voters: VoterSets,
        peers: Peers,
        log: ReplicatedLog,
        snapshots: Snapshots,
        delivery: Delivery,
        elections: Elections,
        timer: ElectionTimer,
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._voters = voters
        self._peers = peers
        self._log = log
        self._max_wait_ms = context.rules.max_fetch_wait_ms(context.fetch_timeout_us)
        self._snapshots = snapshots
        self._delivery = delivery
        self._elections = elections
        self._timer = timer
        self.snapshot_max_bytes = SNAPSHOT_MAX_BYTES
        self._active: Peer | None = None  # the peer of the active Fetch
        self._followed_epoch = NONE  # the epoch in which a follower sent it; −1: no follower did

    # --------------------------------------------------------------------------------- sending

    def poll(self, now: int) -> None:
        """Send the next Fetch, unless the active one serves the present role."""
        role = self._quorum.role
        if self._quorum.halted or not self._needs_fetch(role):
            return
        peer = self._best_peer(role, now)
        if peer is None:
            self._poll_later(now)
            return
        self._context.timers.cancel(RETRY_TIMER)
        self._active = peer
        self._followed_epoch = role.epoch if isinstance(role, Follower) else NONE
        peer.fetching = True
        peer.fetch.send(self._request(peer), now, partial(self._on_answer, peer, role.epoch))

    def _needs_fetch(self, role: Role) -> bool:
        active = self._active
        if isinstance(role, Follower):
            served = active is not None and (
                active is self._peers[role.leader] or self._followed_epoch == role.epoch
            )
            return not served and not role.installing
        return isinstance(role, Unattached) and active is None

    def _best_peer(self, role: Role, now: int) -> Peer | None:
        """Return the leader if a Fetch can be sent to it, else a random voter, or None."""
        if isinstance(role, Follower):
            leader = self._peers[role.leader]
            if leader.free(now):
                return leader
        free = [peer for peer in self._peers.voters() if peer.free(now)]
        return free[int(self._context.process.rng.random() * len(free))] if free else None

    def _request(self, peer: Peer) -> RaftFetchRequest | FetchSnapshotRequest:
        role, log = self._quorum.role, self._log
        replica_id = self._voters.replica_id
        if isinstance(role, Follower) and peer.id == role.leader:
            snapshot = role.fetching_snapshot
            if snapshot is not None:
                position = log.snapshots.written(snapshot)
                return FetchSnapshotRequest(
                    replica_id,
                    role.epoch,
                    snapshot,
                    position,
                    self.snapshot_max_bytes,
                    self._context.directory_id,
                )
        return RaftFetchRequest(
            replica_id,
            role.epoch,
            log.end_offset,
            log.last_epoch,
            self._max_wait_ms,
            replica_directory_id=self._context.directory_id,
            high_watermark=log.high_watermark,
        )

    def _poll_later(self, now: int) -> None:
        """Poll again after the retry backoff."""
        if self._active is None:
            self._context.timers.arm(RETRY_TIMER, now + self._backoff_us(), LANE, self.poll)

    def _backoff_us(self) -> int:
        return self._context.config.controller_quorum_retry_backoff_ms * 1000

    # --------------------------------------------------------------------------------- answers

    def _on_answer(self, peer: Peer, epoch: int, answer: Any, now: int) -> None:
        """Apply the answer to a Fetch that was sent in ``epoch``, and send the next one."""
        peer.fetching = False
        failed = type(answer) is Failed or answer.error is Errors.UNKNOWN_SERVER_ERROR
        if failed:
            peer.not_before = now + self._backoff_us()
        # While this Fetch still counts as active: the new leader may be this peer.
        usable = self._take_response(answer, now)
        if self._active is not peer:
            return
        self._active = None
        role = self._quorum.role
        if isinstance(role, Follower) and usable:
            if role.leader == peer.id and role.epoch == epoch:
                if type(answer) is FetchSnapshotResponse:
                    self._take_chunk(role, answer, now)
                else:
                    self._apply(role, answer, now)
            if not self._context.timers.armed(RETRY_TIMER):
                self.poll(now)
        elif failed or (isinstance(role, Follower) and role.epoch > epoch):
            self.poll(now)
        else:
            self._poll_later(now)

    def _take_response(self, answer: Any, now: int) -> bool:
        """Take what an answer says of the quorum; return whether the rest of it may be used."""
        if self._quorum.halted or type(answer) is Failed:
            return False
        if answer.error is Errors.UNKNOWN_SERVER_ERROR:  # handleTopLevelError
            self._forget_snapshot()
            return False
        if answer.error in SNAPSHOT_ERRORS:
            self._forget_snapshot()
            if answer.leader_epoch == self._quorum.epoch:
                self._fetched(now)
        elif answer.error is not Errors.NONE and type(answer) is RaftFetchResponse:
            self._peers.note_endpoint(answer.leader_id, answer.leader_endpoint)
        return not self._elections.take_response(
            answer.error, answer.leader_id, answer.leader_epoch, now
        )

    def _apply(self, role: Follower, response: RaftFetchResponse, now: int) -> None:
        if response.snapshot_id is not None:
            role.fetching_snapshot = response.snapshot_id
            self._log.snapshots.begin(response.snapshot_id)
            self._fetched(now)
            return
        try:
            if response.diverging_epoch is not None:
                self._truncate(*response.diverging_epoch, now)
            elif response.batches and not self._append(role, response, now):
                return
        except DiskError as error:
            self._quorum.halt(str(error))
        if self._quorum.halted:
            return
        self._fetched(now)
        if response.diverging_epoch is None:  # else what is left may diverge in a lower epoch
            self._delivery.commit(min(response.high_watermark, self._log.end_offset), now)

    def _fetched(self, now: int) -> None:
        """Note that the leader has answered (FollowerState.resetFetchTimeoutForSuccessfulFetch)."""
        role = self._quorum.role
        if isinstance(role, Follower):
            role.has_fetched = True
            self._timer.await_fetch(now)

    def _append(self, role: Follower, response: RaftFetchResponse, now: int) -> bool:
        """Append the batches, durably on a voter; return whether they are in the log."""
        context, log = self._context, self._log
        now_ms = context.process.wall_ms(now)
        result = log.append_as_follower(response.batches, role.epoch, now_ms, now)
        if result.error is Errors.CORRUPT_MESSAGE:
            self._poll_later(now)  # fetch again; the fetch timeout is not restarted
            return False
        if result.error is not Errors.NONE:
            self._quorum.halt(f"append at {log.end_offset}: {result.error.name}")
            return False
        if context.rules.must_flush_before_fetch(self._voters.is_voter):
            context.out.append(Barrier(log.log.flush_files()))
            log.log.local.flushed(log.end_offset)
        return True

    def _truncate(self, epoch: int, end_offset: int, now: int) -> None:
        """Cut the log where it leaves the leader's; never below the high watermark."""
        log = self._log
        offset = log.truncation_offset(epoch, end_offset)
        if offset < log.high_watermark:
            self._quorum.halt(f"truncation to {offset}, below {log.high_watermark}")
            return
        log.truncate_to(offset, now)

    # -------------------------------------------------------------------- loading a snapshot

    def _take_chunk(self, role: Follower, response: FetchSnapshotResponse, now: int) -> None:
        """Write the next chunk of the snapshot; install it once it is complete."""
        store = self._log.snapshots
        snapshot = role.fetching_snapshot
        if snapshot != response.snapshot_id or store.written(snapshot) != response.position:
            self._forget_snapshot()
            return
        try:
            for chunk, _ in response.items:
                store.append(snapshot, chunk)
        except DiskError as error:
            self._quorum.halt(str(error))
            return
        self._fetched(now)
        if store.written(snapshot) == response.size:
            role.installing = True
            self._snapshots.install(snapshot, partial(self._installed, role, snapshot), now)

    def _installed(self, role: Follower, snapshot: tuple[int, int], now: int) -> None:
        """Start the log anew at the end of the snapshot, which is durable now."""
        log = self._log
        role.fetching_snapshot = None
        role.installing = False
        try:
            if role is not self._quorum.role:  # a Fetch from the old log end may be under way
                log.snapshots.delete(snapshot)
                return
            log.start_at_snapshot(snapshot, now)
        except DiskError as error:
            self._quorum.halt(str(error))
            return
        self._context.out.append(MetadataSnapshot("loaded", *snapshot))
        self._delivery.load_snapshot(snapshot, now)
        self.poll(now)

    def _forget_snapshot(self) -> None:
        """Give up the snapshot that is being fetched; the next Fetch asks for records again."""
        role = self._quorum.role
        if isinstance(role, Follower):
            role.fetching_snapshot = None
