"""One replica of a quorum's log (Kafka: KafkaRaftClient, KIP-595): its parts put together.

The log carries opaque records: those of the cluster metadata, or of a ZooKeeper ensemble. The
client routes requests to its parts, carries out the role changes that they cause, and tells each
part what follows. State has one owner each: :class:`QuorumState` the role, :class:`VoterSets` the
voters, :class:`ReplicatedLog` the log with its high watermark.

Everything runs on lane ``raft``. Only :meth:`RaftClient.schedule_append`,
:meth:`RaftClient.create_snapshot`, :meth:`RaftClient.resign` and :meth:`RaftClient.shutdown` may be
called from another lane.

Durability: the election state is durable before anything that depends on it is sent, and a voter's
log before its next Fetch. A disk error or a broken protocol halts the process, as Kafka's fault
handler does.

Left out: a controller that has voted for itself, was removed from the voters in that epoch, and is
started again in it, follows as an observer. In Kafka it does not start: the constructor of
CandidateState throws (equal in 3.9 and 4.0 to 4.2). Nothing but an operator ends that, so there is
no later behaviour to play.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Post, Process, Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    RaftFetchRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.delivery import Delivery, Listener
from kafkasim.model.raft.leader.appends import Appends
from kafkasim.model.raft.leader.check_quorum import CheckQuorum
from kafkasim.model.raft.leader.description import describe
from kafkasim.model.raft.leader.fetch_serving import FetchServer
from kafkasim.model.raft.leader.snapshot_serving import SnapshotServer
from kafkasim.model.raft.leader.voter_changes import VoterChanges
from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.log.snapshot_store import SnapshotStore
from kafkasim.model.raft.log.snapshots import Snapshots
from kafkasim.model.raft.other_cluster import refusal
from kafkasim.model.raft.quorum.election_state import NONE, ElectionState, QuorumStateStore
from kafkasim.model.raft.quorum.election_timer import ElectionTimer
from kafkasim.model.raft.quorum.elections import Elections
from kafkasim.model.raft.quorum.majority import preferred_successors
from kafkasim.model.raft.quorum.peers import Peers
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
    Unattached,
)
from kafkasim.model.raft.quorum.voters import VoterSets
from kafkasim.model.raft.quorum_fetcher import QuorumFetcher
from kafkasim.model.raft.rules import RaftRules, RoleName
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.log.unified_log import UnifiedLog

SHUTDOWN_TIMER = (LANE, "shutdown")
SHUTDOWN_TIMEOUT_US = 5_000_000


class RaftClient:
    """One replica of the quorum's log: a voter, or an observer if ``voters`` do not name it.

    ``voters`` is node id to address; the client changes it in place when the voter set changes.
    ``observer`` makes the replica an observer even if its id is a voter's (a broker in one process
    with a controller). ``voter_directories``: where the voter set may change (kraft.version 1), the
    directory ids of these first voters; None: it may not. ``on_role`` hears of every role that the
    replica takes, on lane ``raft``, where a listener hears of leaders only.
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
        on_role: Callable[[Role, int], None] | None = None,
        voter_directories: Mapping[int, str] | None = None,
    ) -> None:
        context = RaftContext(process, node_id, directory_id, config, rules, voter_directories)
        self._context = context
        self._on_role = on_role
        self.log = log
        root = log.directory[: log.directory.rfind("/") + 1]
        self._store = QuorumStateStore(process.files, f"{root}{log.tp}.quorum-state")
        self.quorum = quorum = QuorumState(context, self._store)
        self._observer = observer
        self.voter_sets = VoterSets(context, voters, observer, self._voters_changed)
        self._peers = Peers(context, self.voter_sets, observer)
        self._timer = ElectionTimer(context, self.voter_sets, self._on_election_timeout)
        snapshot_store = SnapshotStore(process.files, log.directory)
        self.replicated_log = replicated = ReplicatedLog(log, snapshot_store, self.voter_sets)
        log.on_disk_error = self._on_disk_error
        self._delivery = Delivery(quorum, replicated, listener)
        self._elections = Elections(
            context, quorum, self.voter_sets, self._peers, replicated, self._timer, self
        )
        self._check_quorum = CheckQuorum(context, self.voter_sets, self._on_quorum_lost)
        self._appends = Appends(context, quorum, self.voter_sets, replicated, self)
        self._fetch_server = FetchServer(
            context, quorum, self._peers, replicated, self._appends, self._check_quorum
        )
        self.snapshots = Snapshots(context, quorum, self.voter_sets, replicated)
        self._snapshot_server = SnapshotServer(context, quorum, snapshot_store, self._check_quorum)
        self._voter_changes = VoterChanges(
            context, quorum, self.voter_sets, self._appends, self._peers, self.resign
        )
        self.fetcher = QuorumFetcher(
            context, quorum, self.voter_sets, self._peers, replicated, self.snapshots,
            self._delivery, self._elections, self._timer,
        )  # fmt: skip
        self._shutdown_done: Callable[[int], None] | None = None
        self._shutting_down = False
        self._handlers = self._request_handlers()

    # ------------------------------------------------------------------- what the owner reads

    @property
    def role(self) -> Role:
        """The present role."""
        return self.quorum.role

    @property
    def epoch(self) -> int:
        """The epoch of the present role."""
        return self.quorum.role.epoch

    @property
    def leader_id(self) -> int:
        """The leader of the epoch; −1 for none."""
        return self.quorum.role.leader

    @property
    def is_leader(self) -> bool:
        """Whether this replica leads its epoch."""
        return self.quorum.is_leader

    @property
    def voters(self) -> dict[int, str]:
        """The latest voters, id to address."""
        return self.voter_sets.voters

    @property
    def high_watermark(self) -> int:
        """Everything below is committed, as far as this replica knows."""
        return self.replicated_log.high_watermark

    @property
    def log_end_offset(self) -> int:
        """The offset that the next record will get."""
        return self.log.log_end_offset

    def kraft_version(self) -> int:
        """Return the finalized kraft.version, as far as this replica's log tells it."""
        return self.voter_sets.kraft_version()

    def describe_quorum(self, now: int) -> DescribeQuorumResponse | None:
        """Return what the leader knows of voters and observers; None if this is no leader."""
        role, node_id = self.quorum.role, self._context.node_id
        if not isinstance(role, Leader):
            return None
        return describe(role, node_id, self.voter_sets.latest, self.log_end_offset, now)

    # ------------------------------------------------------------------- called by the owner

    def start(self, now: int) -> None:
        """Take the role that the durable state prescribes (QuorumState.initialize).

        A controller that led resigns even if it is no voter any more: it tells the voters, and
        raises the epoch before it fetches, or they would name it as the leader that it is not.
        One that voted for itself in the epoch and is no voter any more does not start
        (CandidateState's constructor).

        Raises:
            DiskError: the newest snapshot cannot be read.
        """
        latest = self.replicated_log.truncate_to_latest_snapshot(now)
        if latest is not None:
            self.snapshots.arm_cleaning(now)
            self._delivery.load_snapshot(latest, now)
        self.replicated_log.read_voters(now)
        last_epoch = self.replicated_log.last_epoch
        context = self._context
        state = self.quorum.initialize(last_epoch)
        role = context.rules.restart_role(self._store.state, context.node_id, last_epoch)
        voter = self.voter_sets.is_voter
        if role is RoleName.LEADER and voter:
            self.become_leader((), now)
        elif role is RoleName.RESIGNED and not self._observer:
            self._resign((), now)
        elif role is RoleName.CANDIDATE and not voter:
            self.quorum.halt(f"{context.node_id} must be in the set of voters to be a candidate")
        elif state.leader in self._peers and (role is RoleName.FOLLOWER or not voter):
            self._follow(state, now)
        elif role is RoleName.CANDIDATE:
            self._campaign(Candidate(state.epoch, context.node_id, 1), now)
        elif voter and not self.voter_sets.others:
            self.become_candidate(1, now)
        else:
            self._enter(Unattached(state.epoch, NONE, state.voted), now)
            self._timer.await_election(now)
            self.fetcher.poll(now)

    @property
    def cause(self) -> str:
        """What ended the last leadership that this replica knew of, in words."""
        return self.quorum.cause

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request of the quorum or about it; the answer may come later."""
        if self.quorum.halted:
            return
        refused = refusal(item.message)
        if refused is not None:
            self._context.respond(item, refused)
        else:
            self._handlers[type(item.message)](item, now)

    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None:
        """Accept records as one atomic piece of a batch; return the offset of the last one.

        None if this replica does not lead ``epoch``. The records enter the log after the linger; if
        the leadership ends before, they are dropped. May be called from any lane.
        """
        if not self.quorum.is_leader or epoch != self.epoch or self._shutting_down:
            return None
        return self._appends.accept(records, now)

    def create_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Write a snapshot of the state below ``end_offset``, the end of a committed batch of
        ``epoch``. May be called from any lane."""
        message = (end_offset, epoch, values)
        self._context.out.append(Post(LANE, self.snapshots.create, message))

    def resign(self, epoch: int, now: int) -> None:
        """Give up the leadership of ``epoch`` in an event of its own, unless it has ended by then.
        May be called from any lane."""
        self._context.out.append(Post(LANE, self._on_resign, epoch))

    def shorten_fetch_timeout(self, timeout_us: int, now: int) -> None:
        """Let a follower's fetch timeout end after ``timeout_us`` at the latest."""
        self._timer.shorten(now, timeout_us)

    def shutdown(self, now: int, done: Callable[[int], None] | None = None) -> None:
        """Stop taking part; a leader hands over first. May be called from any lane.

        ``done(now)`` runs on lane ``raft`` once another replica leads, after 5 s at the latest.
        """
        self._shutting_down = True
        self._shutdown_done = done
        self._context.out.append(Post(LANE, self._on_shutdown, None))

    # -------------------------------------------------- role changes (elections.RoleChanges)

    def become_unattached(self, epoch: int, now: int, deadline: int | None = None) -> None:
        """Enter ``epoch`` without a leader. A running election timeout goes on, until ``deadline``
        if that is given: a voter whose timeout has ended asks for votes, it does not fetch."""
        role = self.quorum.role
        if deadline is None and not isinstance(role, Follower | Leader):
            deadline = self._timer.deadline
        if isinstance(role, Candidate) and role.deadline is not None:
            deadline = max(role.deadline, now)
        voted = role.voted if epoch == role.epoch else NONE
        self._enter(Unattached(epoch, NONE, voted), now)
        self._timer.await_election(now, deadline)
        if deadline is None or deadline > now or not self.voter_sets.is_voter:
            self.fetcher.poll(now)

    def become_follower(self, epoch: int, leader: int, now: int) -> None:
        """Follow ``leader`` in ``epoch``."""
        role = self.quorum.role
        voted = role.voted if epoch == role.epoch else NONE
        self._follow(ElectionState(epoch, leader, voted), now)
        if self._shutting_down:
            self._end_shutdown(now)

    def become_prospective(self, retries: int, now: int) -> None:
        """Begin an election with a pre-vote, or at once if pre-vote is off."""
        if self._shutting_down:
            return
        if not self._context.rules.pre_vote():
            self.become_candidate(retries, now)
            return
        role = self.quorum.role
        leader = role.leader if isinstance(role, Follower) else NONE
        node_id = self._context.node_id
        self._enter(Prospective(role.epoch, leader, role.voted, node_id, retries), now)
        self._timer.await_election(now)
        self._elections.send_votes(now)

    def become_candidate(self, retries: int, now: int) -> None:
        """Raise the epoch, vote for this replica, and ask the other voters."""
        self._campaign(Candidate(self.epoch + 1, self._context.node_id, retries), now)

    def become_leader(self, granting: tuple[int, ...], now: int) -> None:
        """Lead the present epoch, and open it with a LeaderChange record."""
        node_id, others = self._context.node_id, self.voter_sets.others
        role = Leader(self.epoch, node_id, others, self.log_end_offset)
        self._enter(role, now)
        self._appends.open_epoch(role, granting, now)
        self._check_quorum.restart(now)
        self._elections.send_begin_quorum_epoch(now)

    def _campaign(self, role: Candidate, now: int) -> None:
        self._enter(role, now)
        self._timer.await_election(now)
        role.deadline = self._timer.deadline
        self._elections.send_votes(now)

    def _follow(self, state: ElectionState, now: int) -> None:
        self._enter(Follower(state.epoch, state.leader, state.voted), now)
        self._timer.await_fetch(now)
        self.fetcher.poll(now)

    def _resign(self, successors: tuple[int, ...], now: int) -> None:
        self._enter(Resigned(self.epoch, self._context.node_id, successors), now)
        self._timer.await_election(now, resigned=True)
        self._elections.send_end_quorum_epoch(now)

    def _enter(self, role: Role, now: int) -> None:
        """Take a role, durably; then refuse the requests that waited for the old one."""
        led = isinstance(self.quorum.role, Leader)
        self._timer.cancel()
        self._check_quorum.cancel()
        self._appends.drop()
        self.quorum.transition(role, self.voter_sets.is_voter)
        if led:
            self._fetch_server.fail_all()
            self._voter_changes.leadership_ended()
        self._delivery.announce(now)
        if self._on_role is not None:
            self._on_role(role, now)

    # -------------------------------------------------- what the parts tell each other

    def log_grew(self, now: int) -> None:
        """The leader appended: answer parked Fetches (appends.LogProgress)."""
        self._fetch_server.log_grew(now)

    def high_watermark_rose(self, role: Leader, now: int) -> None:
        """The leader committed: tell the listener, then whoever waits (appends.LogProgress)."""
        self._delivery.commit(role.high_watermark, now)
        if not role.announced:
            role.announced = True
            self._delivery.announce(now)
        self._fetch_server.high_watermark_rose(now)
        self._voter_changes.high_watermark_rose(role, now)

    def _voters_changed(self, now: int) -> None:
        """The log has another voter set: follow it in peers, role and timer."""
        self._peers.voters_changed()
        role, voters = self.quorum.role, self.voter_sets
        if isinstance(role, Leader):
            role.change_voters(voters.others, voters.directories)
        elif not voters.is_voter:
            self._timer.cancel()
        elif self.quorum.entered and self._timer.deadline is None:
            self._timer.await_fetch(now)

    def _on_election_timeout(self, now: int) -> None:
        self._elections.on_timeout(now)

    def _on_quorum_lost(self, now: int) -> None:
        self.quorum.cause = "no majority of voters has fetched from it for one and a half times"
        self.quorum.cause += " controller.quorum.fetch.timeout.ms"
        self._on_resign(self.epoch, now)

    def _on_resign(self, epoch: int, now: int) -> None:
        role = self.quorum.role
        if isinstance(role, Leader) and role.epoch == epoch and not self.quorum.halted:
            self._resign(preferred_successors(role.end_offsets), now)

    def _request_handlers(self) -> dict[type, Callable[[Request, int], None]]:
        return {
            VoteRequest: self._elections.on_vote,
            BeginQuorumEpochRequest: self._elections.on_begin_quorum_epoch,
            EndQuorumEpochRequest: self._elections.on_end_quorum_epoch,
            RaftFetchRequest: self._fetch_server.on_fetch,
            FetchSnapshotRequest: self._snapshot_server.on_fetch_snapshot,
            AddRaftVoterRequest: self._voter_changes.on_add,
            RemoveRaftVoterRequest: self._voter_changes.on_remove,
            UpdateRaftVoterRequest: self._voter_changes.on_update,
            DescribeQuorumRequest: self._on_describe,
        }

    def _on_describe(self, item: Request, now: int) -> None:
        answer = self.describe_quorum(now)
        refusal = DescribeQuorumResponse(Errors.NOT_LEADER_OR_FOLLOWER)
        self._context.respond(item, refusal if answer is None else answer)

    def _on_disk_error(self, error: DiskError) -> None:
        self.quorum.halt(str(error))

    # --------------------------------------------------------------------------- shutdown

    def _on_shutdown(self, message: None, now: int) -> None:
        deadline = now + SHUTDOWN_TIMEOUT_US
        self._context.timers.arm(SHUTDOWN_TIMER, deadline, LANE, self._end_shutdown)
        self.quorum.cause = "it shuts down"
        self._on_resign(self.epoch, now)
        voters = self.voter_sets
        if not voters.others or self.leader_id != NONE or not voters.is_voter:
            self._end_shutdown(now)

    def _end_shutdown(self, now: int) -> None:
        self._context.timers.cancel(SHUTDOWN_TIMER)
        self.quorum.halted = True
        done, self._shutdown_done = self._shutdown_done, None
        if done is not None:
            done(now)
