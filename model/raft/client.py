"""KafkaRaftClient: one replica (voter or observer) of a log that is replicated by KRaft (KIP-595).

It carries opaque records: the cluster metadata now, a ZooKeeper ensemble's log later. The client
holds the current role (:mod:`kafkasim.model.raft.quorum.states`) and changes it; :mod:`kafkasim.model.raft.quorum.elections` asks
for and gives votes and tells the voters of epochs, :mod:`kafkasim.model.raft.log.fetching` is the follower's
side of replication and :mod:`kafkasim.model.raft.log.serving` the leader's, :mod:`kafkasim.model.raft.log.snapshots` shortens
the log. All run on lane ``raft``; only
:meth:`RaftClient.schedule_append` and :meth:`RaftClient.resign` may be called from another lane.

Durability: the election state stands behind a Barrier before all that depends on it, a voter's
fetched records before its next Fetch, and the leader counts its own log once it is flushed.

A disk error or a broken protocol halts the process, as Kafka's fault handler does.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Exit, Post, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import RaftRole
from kafkasim.model.messages import (
    BeginQuorumEpochRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    RaftFetchRequest,
    VoteRequest,
)
from kafkasim.model.raft.delivery import Delivery, Listener
from kafkasim.model.raft.log.appends import Appends
from kafkasim.model.raft.log.fetching import Fetcher, Peer
from kafkasim.model.raft.log.serving import FetchServer
from kafkasim.model.raft.log.snapshots import SnapshotId, Snapshots, post_create
from kafkasim.model.raft.quorum import majority as quorum
from kafkasim.model.raft.quorum.elections import Elections
from kafkasim.model.raft.quorum.quorum_state import NONE, ElectionState, QuorumStateStore
from kafkasim.model.raft.quorum.states import (
    TRANSITIONS,
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from kafkasim.model.raft.quorum.voters import VoterSets, describe
from kafkasim.model.raft.rules import CANDIDATE, FOLLOWER, LEADER, RESIGNED, RaftRules
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.log.unified_log import UnifiedLog

LANE = "raft"
ELECTION_TIMER = (LANE, "election")
CHECK_QUORUM_TIMER = (LANE, "check-quorum")
SHUTDOWN_TIMER = (LANE, "shutdown")
SHUTDOWN_TIMEOUT_US = 5_000_000


class RaftClient:
    """One replica of the quorum's log. An observer is any node outside ``voters``.

    ``observer`` makes it one even where its id is a voter's (a broker beside a controller).
    """

    def __init__(
        self,
        process: Process,
        node_id: int,
        voters: dict[int, str],
        log: UnifiedLog,
        config: BrokerConfig,
        rules: RaftRules,
        listener: Listener,
        observer: bool = False,
        directory_id: str = "",
    ) -> None:
        self.process = process
        self.node_id = node_id
        self.directory_id = directory_id
        self.voters = voters  # id to address; the log may change it in place (KIP-853)
        self.directories = dict.fromkeys(voters, "")
        self.observer = observer
        self.is_voter = node_id in voters and not observer
        self.replica_id = node_id if self.is_voter or node_id not in voters else NONE
        self.log = log
        self.config = config
        self.rules = rules
        self.fetch_timeout_us = config.controller_quorum_fetch_timeout_ms * 1000
        self.listener = listener
        self.others = [voter for voter in voters if not self.is_voter or voter != node_id]
        self.peers = {voter: Peer(self, voter, voters[voter]) for voter in self.others}
        root = log.directory[: log.directory.rfind("/") + 1]
        self.store = QuorumStateStore(process.files, f"{root}{log.tp}.quorum-state")
        self.state: Role = Unattached(0)
        self.epoch = 0
        self.leader_id = NONE
        self.is_leader = False
        self.high_watermark = 0  # committed below it, as far as this replica knows; never falls
        self.log_end_offset = log.log_end_offset
        self.halted = False
        log.on_disk_error = self._on_disk_error
        self.elections = Elections(self)
        self.fetcher = Fetcher(self)
        self.server = FetchServer(self)
        self.appends = Appends(self)
        self.snapshots = Snapshots(self)
        self.voter_sets = VoterSets(self)
        self.delivery = Delivery(self, listener)
        self.started = False
        self._shutdown_done: Callable[[int], None] | None = None
        self._shutting_down = False
        self._on = self._handlers()

    # ---------------------------------------------------------------- called by the owner

    def start(self, now: int) -> None:
        """Take the role that the durable state says (QuorumState.initialize)."""
        self.snapshots.start(now)
        self.voter_sets.start(now)
        stored = self.store.state
        last_epoch = self.last_log_epoch
        self.epoch = epoch = max(stored.epoch, last_epoch)
        if stored.epoch < last_epoch:
            stored = ElectionState(last_epoch, NONE, NONE)
        role = self.rules.restart_role(self.store.state, self.node_id, last_epoch)
        if not self.is_voter:
            role = FOLLOWER
        if role == FOLLOWER and stored.leader not in self.peers:
            role = ""
        if role == LEADER:
            self.become_leader(
                Leader(epoch, self.node_id, self.others, self.log_end_offset), (), now
            )
        elif role == RESIGNED:
            self._resign(Resigned(epoch, self.node_id, self.others, ()), now)
        elif role == FOLLOWER:
            self._follow(stored, now)
        elif role == CANDIDATE:
            self._enter(Candidate(epoch, self.node_id, 1), now)
            self.await_election(now)
            self.elections.send_votes(now)
        elif self.is_voter and not self.others:
            self.become_candidate(1, now)
        else:
            self._enter(Unattached(epoch, NONE, stored.voted), now)
            self.await_election(now)
            self.fetcher.poll(now)

    def on_request(self, item: Request, now: int) -> None:
        """Serve Vote, BeginQuorumEpoch, EndQuorumEpoch or RaftFetch; the answer may come later."""
        if not self.halted:
            self._on[type(item.message)](item, now)

    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None:
        """Accept records as one atomic piece of a batch; return the offset of the last one.

        None if this replica does not lead ``epoch``. They enter the log after the linger. If the
        leadership ends before, they are dropped. May be called from any lane.
        """
        if not self.is_leader or epoch != self.epoch or self._shutting_down:
            return None
        return self.appends.accept(records, now)

    def create_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Have a snapshot written of the state below ``end_offset``, the end of a committed batch
        of ``epoch``. May be called from any lane."""
        post_create(self, end_offset, epoch, values)

    def resign(self, epoch: int, now: int) -> None:
        """Give up the leadership of ``epoch``, soon; nothing happens in another epoch."""
        self.process.out.append(Post(LANE, self._on_resign, epoch))

    def shutdown(self, now: int, done: Callable[[int], None] | None = None) -> None:
        """Stop taking part; a leader hands over first.

        ``done(now)`` runs on lane ``raft`` once another leads, at the latest after 5 s.
        """
        self._shutting_down = True
        self._shutdown_done = done
        self.process.out.append(Post(LANE, self._on_shutdown, None))

    # ------------------------------------------------------------------ changes of role

    def become_unattached(self, epoch: int, now: int, deadline: int | None = None) -> None:
        """Enter ``epoch`` without a leader; what remains of an election timeout remains."""
        role = self.state
        if deadline is None and not isinstance(role, Follower | Leader):
            deadline = self.process.timers.deadline(ELECTION_TIMER)
        voted = role.voted if epoch == role.epoch else NONE
        self._enter(Unattached(epoch, NONE, voted), now)
        self.await_election(now, deadline)
        self.fetcher.poll(now)

    def become_follower(self, epoch: int, leader: int, now: int) -> None:
        """Follow ``leader`` in ``epoch``."""
        voted = self.state.voted if epoch == self.state.epoch else NONE
        self._follow(ElectionState(epoch, leader, voted), now)
        if self._shutting_down:
            self._end_shutdown(now)

    def become_prospective(self, retries: int, now: int) -> None:
        """Begin an election: with a pre-vote, or at once where that is off."""
        if self._shutting_down:
            return
        if not self.rules.pre_vote():
            self.become_candidate(retries, now)
            return
        role = self.state
        leader = role.leader if isinstance(role, Follower) else NONE
        self._enter(Prospective(role.epoch, leader, role.voted, self.node_id, retries), now)
        self.await_election(now)
        self.elections.send_votes(now)

    def become_candidate(self, retries: int, now: int) -> None:
        """Raise the epoch, vote for this replica, and ask the others."""
        self._enter(Candidate(self.epoch + 1, self.node_id, retries), now)
        self.await_election(now)
        self.elections.send_votes(now)

    def become_resigned(self, role: Leader, now: int) -> None:
        """Let go of the leadership and tell the voters who should come next."""
        successors = quorum.preferred_successors(role.end_offsets)
        self._resign(Resigned(role.epoch, self.node_id, self.others, successors), now)

    def record_vote(self, candidate: int, now: int) -> None:
        """Remember durably that this replica voted for ``candidate`` in its epoch."""
        assert self.state.voted in (NONE, candidate), (self.state, candidate)
        self.state.voted = candidate
        self._persist()

    def handle_common(self, error: Errors, leader: int, epoch: int, now: int) -> bool:
        """Digest an answer's (leader, epoch) (maybeHandleCommonResponse).

        Return whether that was all there is to the answer.
        """
        if epoch < self.epoch or error is Errors.UNKNOWN_LEADER_EPOCH:
            return True
        if epoch > self.epoch or error is not Errors.NONE:
            self.elections.learn(leader, epoch, now)
            return True
        if leader not in (NONE, self.leader_id):
            self.elections.learn(leader, epoch, now)
        return self.halted

    def describe_quorum(self, now: int) -> DescribeQuorumResponse | None:
        """Return what the leader knows of voters and observers; None elsewhere."""
        return describe(self, now)

    def halt(self, reason: str) -> None:
        """End the process: it cannot go on without breaking the log (FaultHandler)."""
        self.halted = True
        self.is_leader = False
        self.process.out.append(Exit(f"raft: {reason}", False))

    # -------------------------------------------------------------------------- the log

    @property
    def last_log_epoch(self) -> int:
        """The epoch of the last record, of the newest snapshot where the log is empty, or 0."""
        latest = self.log.epochs.latest_epoch
        return latest if latest >= 0 else self.snapshots.latest_epoch

    def raise_high_watermark(self, high_watermark: int, now: int) -> None:
        """Commit up to ``high_watermark`` (exclusive) and hand it to the listener."""
        if high_watermark <= self.high_watermark:
            return
        assert high_watermark <= self.log_end_offset, (high_watermark, self.log_end_offset)
        self.high_watermark = high_watermark
        self.log.update_high_watermark(high_watermark)
        self.delivery.commit(high_watermark, now)

    def deliver_snapshot(self, snapshot: SnapshotId, now: int) -> None:
        """Take a durable snapshot for committed, and hand it to the listener."""
        end_offset = snapshot[0]
        if end_offset > self.high_watermark:
            self.high_watermark = end_offset
            self.log.update_high_watermark(end_offset)
        self.delivery.snapshot(snapshot, now)

    def heard_from_majority(self, now: int) -> None:
        """Restart the check quorum timer."""
        timeout_us = self.rules.check_quorum_us(self.fetch_timeout_us)
        if timeout_us is not None and self.others:
            deadline = now + timeout_us
            self.process.timers.arm(CHECK_QUORUM_TIMER, deadline, LANE, self._on_check_quorum)

    # ----------------------------------------------------------------------- the inside

    def _handlers(self) -> dict[type, Callable[[Request, int], None]]:
        return {
            VoteRequest: self.elections.on_vote,
            BeginQuorumEpochRequest: self.elections.on_begin_quorum_epoch,
            EndQuorumEpochRequest: self.elections.on_end_quorum_epoch,
            RaftFetchRequest: self.server.on_fetch,
            FetchSnapshotRequest: self.snapshots.on_fetch_snapshot,
            **self.voter_sets.handlers(),
        }

    def _enter(self, role: Role, now: int) -> None:
        """Change the role: durable first, then the trace, then who waits for the old one."""
        old = self.state
        assert role.epoch >= self.epoch, (old, role)
        assert not self.started or role.name in TRANSITIONS[old.name], (old, role)
        self.started = True
        timers = self.process.timers
        timers.cancel(ELECTION_TIMER)
        timers.cancel(CHECK_QUORUM_TIMER)
        self.state = role
        self.epoch = role.epoch
        self.leader_id = role.leader
        self.is_leader = isinstance(role, Leader)
        self.appends.drop()
        if not isinstance(role, Resigned):  # its durable state says that it was the leader
            self._persist()
        if self.is_voter:
            self.process.out.append(RaftRole(role.name, role.epoch, role.leader))
        if isinstance(old, Leader):
            self.server.fail_all(now)
            self.voter_sets.fail(Errors.NOT_LEADER_OR_FOLLOWER)
        self.delivery.announce(now)

    def _persist(self) -> None:
        role = self.state
        state = ElectionState(role.epoch, role.leader, role.voted)
        if state == self.store.state:
            return
        try:
            self.rules.persist_vote_before_reply(self.store, state, self.process.out)
        except DiskError as error:
            self.halt(str(error))

    def _resign(self, role: Resigned, now: int) -> None:
        self._enter(role, now)
        self.await_election(now, voter=True)
        self.elections.send_end_quorum_epoch(now)

    def _follow(self, state: ElectionState, now: int) -> None:
        self._enter(Follower(state.epoch, state.leader, state.voted), now)
        self.await_fetch(now)
        self.fetcher.poll(now)

    def await_fetch(self, now: int, timeout_us: int | None = None) -> None:
        """(Re)start the fetch timeout of a following voter."""
        if self.is_voter:
            deadline = now + (self.fetch_timeout_us if timeout_us is None else timeout_us)
            self.process.timers.arm(ELECTION_TIMER, deadline, LANE, self.elections.on_timeout)

    def await_election(
        self, now: int, deadline: int | None = None, voter: bool | None = None
    ) -> None:
        """Arm the election timeout of a voter: uniform in [1, 2) × its setting by default."""
        if not (self.is_voter if voter is None else voter):
            return
        if deadline is None:
            base_us = self.config.controller_quorum_election_timeout_ms * 1000
            deadline = now + base_us + int(self.process.rng.random() * base_us)
        self.process.timers.arm(ELECTION_TIMER, deadline, LANE, self.elections.on_timeout)

    def become_leader(self, role: Leader, granting: tuple[int, ...], now: int) -> None:
        """Lead the epoch that was won, and begin it with a record of its own."""
        self._enter(role, now)
        self.appends.open_epoch(role, granting, now)
        self.heard_from_majority(now)
        self.elections.send_begin_quorum_epoch(now)

    def _on_check_quorum(self, now: int) -> None:
        self._on_resign(self.epoch, now)

    def _on_resign(self, epoch: int, now: int) -> None:
        role = self.state
        if isinstance(role, Leader) and role.epoch == epoch and not self.halted:
            self.become_resigned(role, now)

    def _on_shutdown(self, message: None, now: int) -> None:
        timers = self.process.timers
        timers.arm(SHUTDOWN_TIMER, now + SHUTDOWN_TIMEOUT_US, LANE, self._end_shutdown)
        self._on_resign(self.epoch, now)
        if not self.others or self.leader_id != NONE or not self.is_voter:
            self._end_shutdown(now)

    def _on_disk_error(self, error: DiskError) -> None:
        self.halt(str(error))

    def _end_shutdown(self, now: int) -> None:
        self.process.timers.cancel(SHUTDOWN_TIMER)
        self.halted = True
        done, self._shutdown_done = self._shutdown_done, None
        if done is not None:
            done(now)
