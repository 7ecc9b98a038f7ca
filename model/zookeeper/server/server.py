"""One server of a ZooKeeper ensemble (QuorumPeer, ZooKeeperServer and its request processors).

Lane ``raft`` replicates the log (:mod:`kafkasim.model.zookeeper.server.replica`); what it commits and what it
becomes is handed in order to lane ``zookeeper``, which has everything else: the database, the
sessions and the clients (:mod:`kafkasim.model.zookeeper.server.serving`). A leader's duties are in
:mod:`kafkasim.model.zookeeper.server.leader`, a follower's connection to it in :mod:`kafkasim.model.zookeeper.server.learner`.

A server serves clients while it leads, or follows and has applied what the leader had proposed when
it joined. Otherwise it closes their connections and takes none.

Left out: observers, passwords, ACLs, quotas, snapshots (a server that restarts replays the log from
its start), throttled requests, local sessions, four-letter words.
"""

from __future__ import annotations

import random
from collections import deque
from typing import Any, Protocol

from kafkasim.model.effects import Exit, Post, Process, Request, Respond
from kafkasim.model.facts import ZooKeeperRole, ZooKeeperSession
from kafkasim.model.messages import (
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    RaftFetchRequest,
    VoteRequest,
    ZkForwardRequest,
    ZkLearnerInfoRequest,
    ZkRevalidateRequest,
    ZkSyncRequest,
    ZkTouchRequest,
)
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import Files
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.database.transactions import CloseSession, CreateSession, Database
from kafkasim.model.zookeeper.rules import ZooKeeperRules
from kafkasim.model.zookeeper.server.leader import REFUSED, EnsembleLeader
from kafkasim.model.zookeeper.server.learner import Done, Learner
from kafkasim.model.zookeeper.server.replica import FOLLOWING, LEADING, LOOKING, Replica
from kafkasim.model.zookeeper.server.serving import ClientPort

LANE = "zookeeper"
TICK_TIMER = (LANE, "tick")
RAFT = dict.fromkeys(
    (VoteRequest, BeginQuorumEpochRequest, EndQuorumEpochRequest, RaftFetchRequest), "raft"
)
OF_LEARNERS = dict.fromkeys(
    (ZkLearnerInfoRequest, ZkForwardRequest, ZkRevalidateRequest, ZkTouchRequest, ZkSyncRequest),
    LANE,
)


class Upstream(Protocol):
    """Where a server takes what its clients want: the leader, here or at the end of a link."""

    def propose(self, record: Any, now: int) -> bool:
        """Have a record logged; False: it cannot be, this server leads no longer."""

    def revalidate(self, session_id: int, now: int, done: Done) -> None:
        """Attach a session to this server; ``done(timeout_ms or 0, now)``."""

    def sync(self, now: int, done: Done) -> None:
        """Learn what is proposed; ``done(zxid, now)``."""

    def touch(self, sessions: tuple[int, ...], now: int) -> None:
        """Report sessions that were heard from."""


class ZooKeeperServer(Process):
    """A voter of the ensemble. ``servers`` is number to address, this one's included."""

    default_lane = LANE
    request_lanes = {**RAFT, **OF_LEARNERS, **ClientPort.request_lanes}

    def __init__(
        self,
        name: str,
        server_id: int,
        servers: dict[int, str],
        config: ZooKeeperConfig,
        rules: ZooKeeperRules,
        files: Files,
        rng: random.Random,
        now: int,
    ) -> None:
        super().__init__(name, files, rng, now)
        self.server_id = server_id
        self.servers = servers
        self.config = config
        self.rules = rules
        self.database = Database(rules)
        self.clients = ClientPort(self)
        self.leader: EnsembleLeader | None = None
        self.learner: Learner | None = None
        self.serving = False
        self._inbox: deque[tuple[Any, ...]] = deque()  # from lane raft, in order
        self.raft = Replica(self, server_id, servers, config, rules, self, now)

    @property
    def upstream(self) -> Upstream:
        """The leader, as this server reaches it while it serves."""
        upstream = self.leader or self.learner
        assert upstream is not None, self.name
        return upstream

    def start(self, now: int) -> None:
        """Join the ensemble."""
        self.raft.start(now)
        self._arm_tick(now)

    def shutdown(self, now: int) -> None:
        """Stop cleanly: send the clients away, hand over the leadership."""
        self._stop_serving(now)
        self.raft.shutdown(now, self._on_stopped)

    def on_request(self, item: Request, now: int) -> None:
        """Serve the quorum on lane ``raft``, followers and clients on lane ``zookeeper``."""
        kind = type(item.message)
        if kind in OF_LEARNERS:
            answer = REFUSED if self.leader is None else self.leader.on_request(item, now)
            self.out.append(Respond(item.connection, item.correlation, answer))
        elif kind in RAFT:
            self.raft.on_request(item, now)
        else:
            self.clients.on_request(item, now)

    # Raft's listener, on lane raft.

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """This server leads, and was handed over all before; of others :meth:`on_role` tells."""
        if leader_id == self.server_id:
            self._hand_over((self._become, LEADING, leader_id, epoch))

    def on_role(self, role: str, leader: int, epoch: int, now: int) -> None:
        """Hand a change of role over to lane ``zookeeper``."""
        self._hand_over((self._become, role, leader, epoch))

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Hand what is committed over to lane ``zookeeper``."""
        self._hand_over((self._apply, batches, self.raft.is_leader))

    def _hand_over(self, entry: tuple[Any, ...]) -> None:
        if not self._inbox:
            self.out.append(Post(LANE, self._drain_inbox, None))
        self._inbox.append(entry)

    # On lane zookeeper.

    def _drain_inbox(self, message: None, now: int) -> None:
        inbox = self._inbox
        while inbox:
            handler, *arguments = inbox.popleft()
            handler(*arguments, now)
        self.check_serving(now)

    def _become(self, role: str, leader: int, epoch: int, now: int) -> None:
        current = self.leader or self.learner
        if current is not None and role != LOOKING and current.epoch == epoch:
            return
        self._stop_serving(now)
        if self.leader is not None:
            self.leader.stop()
            self.leader = None
        if self.learner is not None:
            self.learner.stop(now)
            self.learner = None
        if role == LEADING:
            self.leader = EnsembleLeader(self, epoch, now)
        elif role == FOLLOWING:
            self.learner = Learner(self, leader, epoch, now)

    def _apply(self, batches: tuple[RecordBatch, ...], leading: bool, now: int) -> None:
        database = self.database
        for batch in batches:
            zxid = batch.base_offset
            for record in batch.records:
                if batch.control:
                    database.last_zxid = zxid
                else:
                    self._apply_record(record.value, zxid, leading, now)
                zxid += 1
        self.clients.caught_up(now)

    def _apply_record(self, record: Any, zxid: int, leading: bool, now: int) -> None:
        kind = type(record)
        if leading and kind is CloseSession:
            self._tell_end(record, zxid)
        result, changes = self.database.apply(record, zxid)
        if self.leader is not None:
            self.leader.applied(record, zxid, now)
        if leading and kind is CreateSession:
            self.tell_session(zxid, "created", record.client, record.server_id, zxid)
        self.clients.applied(record, result, changes, now)

    def check_serving(self, now: int) -> None:
        """Begin to serve clients if everything for it is there."""
        if self.serving:
            return
        learner = self.learner
        if self.leader is not None:
            self.serving = True
            self._tell_role(LEADING, self.leader.epoch, self.server_id)
        elif learner is not None and learner.joined:
            if self.database.last_zxid >= learner.serve_from:
                self.serving = True
                self._tell_role(FOLLOWING, learner.epoch, learner.leader)

    def on_link_lost(self, epoch: int, broken: bool, now: int) -> None:
        """The leader is out of reach: send the clients away, and doubt it if the link broke."""
        self._stop_serving(now)
        if broken:
            self.out.append(Post("raft", self.raft.suspect_leader, epoch))

    def on_not_leading(self, now: int) -> None:
        """The log takes no more records; lane ``raft`` will say what this server is now."""
        self._stop_serving(now)

    def tell_session(
        self, session_id: int, event: str, client: str, server_id: int | None, zxid: int
    ) -> None:
        """Write into the trace what became of a session."""
        address = "" if server_id is None else self.servers[server_id]
        self.out.append(ZooKeeperSession(session_id, event, client, address, zxid))

    def _tell_end(self, record: CloseSession, zxid: int) -> None:
        session = self.database.sessions.get(record.session_id)
        if session is not None:
            owner = None if self.leader is None else self.leader.owner(record.session_id)
            self.tell_session(record.session_id, record.reason, session.client, owner, zxid)

    def _tell_role(self, role: str, epoch: int, leader: int) -> None:
        self.out.append(ZooKeeperRole(role, epoch, leader))

    def _stop_serving(self, now: int) -> None:
        if self.serving:
            self.serving = False
            self.clients.close_all()
            self._tell_role(LOOKING, self.raft.epoch, self.raft.leader_id)

    def _arm_tick(self, now: int) -> None:
        self.timers.arm(TICK_TIMER, now + self.config.tick_us // 2, LANE, self._on_tick)

    def _on_tick(self, now: int) -> None:
        self.clients.drop_silent(now)
        if self.learner is not None and self.learner.joined:
            self.learner.touch(self.clients.take_heard(), now)
        self._arm_tick(now)

    def _on_stopped(self, now: int) -> None:
        self.out.append(Exit("shutdown", True))
