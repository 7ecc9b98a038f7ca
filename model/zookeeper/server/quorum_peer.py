"""One server of a ZooKeeper ensemble (QuorumPeer and its request processors).

The server works on two lanes:

    lane raft        replicates the log; says what is committed and what this server has become
        │            (replica.py)
        ▼ inbox, in order
    lane zookeeper   applies what is committed to the database, and owns
                       ├─ client_service.py   the clients, while the server serves
                       └─ leader.py or learner.py   this server's side of the current epoch

A server serves clients while it leads, or while it follows and has applied everything that the
leader had proposed when it joined. Otherwise it closes their connections.

Not modelled: observers, passwords, ACLs, quotas, snapshots (a server that restarts replays the log
from its start), request throttling, local sessions, four-letter words.
"""

from __future__ import annotations

import random
from collections import deque
from functools import partial
from typing import Any

from kafkasim.model.effects import Exit, Handler, Post, Process, Request, Respond
from kafkasim.model.facts import ZooKeeperRole
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
from kafkasim.model.zookeeper.server.client_service import CLIENT_REQUESTS, ClientService
from kafkasim.model.zookeeper.server.leader import REFUSED, EnsembleLeader
from kafkasim.model.zookeeper.server.learner import Learner
from kafkasim.model.zookeeper.server.replica import EnsembleReplica, ServerState
from kafkasim.model.zookeeper.server.sessions import SessionTrace

LANE = "zookeeper"
TICK_TIMER = (LANE, "tick")
QUORUM_REQUESTS = (
    VoteRequest,
    BeginQuorumEpochRequest,
    EndQuorumEpochRequest,
    RaftFetchRequest,
)
LEARNER_REQUESTS = (
    ZkLearnerInfoRequest,
    ZkForwardRequest,
    ZkRevalidateRequest,
    ZkTouchRequest,
    ZkSyncRequest,
)


class QuorumPeer(Process):
    """A voter of the ensemble. ``servers`` is number to address, this one's included."""

    default_lane = LANE
    request_lanes = {
        **dict.fromkeys(QUORUM_REQUESTS, "raft"),
        **dict.fromkeys(LEARNER_REQUESTS, LANE),
        **dict.fromkeys(CLIENT_REQUESTS, LANE),
    }

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
        self.clients = ClientService(
            self.out, server_id, self.started_us, config, rules, self.database
        )
        self.leader: EnsembleLeader | None = None
        self.learner: Learner | None = None
        self._trace = SessionTrace(self.out, servers)
        self._inbox: deque[Handler] = deque()  # from lane raft
        self._replica = EnsembleReplica(self, server_id, servers, config, rules, self, now)
        self.raft = self._replica.client

    @property
    def serving(self) -> bool:
        """Whether this server serves clients."""
        return self.clients.serving

    def start(self, now: int) -> None:
        """Join the ensemble."""
        self.raft.start(now)
        self._arm_tick(now)

    def shutdown(self, now: int) -> None:
        """Stop cleanly: close the clients' connections, hand the leadership over."""
        self._stop_serving(now)
        self.raft.shutdown(now, self._on_stopped)

    def on_request(self, item: Request, now: int) -> None:
        """Serve the quorum on lane ``raft``, followers and clients on lane ``zookeeper``."""
        kind = type(item.message)
        if kind in LEARNER_REQUESTS:
            answer = REFUSED if self.leader is None else self.leader.on_request(item, now)
            self.out.append(Respond(item.connection, item.correlation, answer))
        elif kind in QUORUM_REQUESTS:
            self.raft.on_request(item, now)
        else:
            self.clients.on_request(item, now)

    # ------------------------------------------------- lane raft: the replica's ReplicaListener

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """Hand over that this server leads, behind all that was committed before its epoch.

        That another server leads, :meth:`on_state` says.
        """
        if leader_id == self.server_id:
            self._hand_over(partial(self._become, ServerState.LEADING, leader_id, epoch))

    def on_state(self, state: ServerState, leader_id: int, epoch: int, now: int) -> None:
        """Hand over that this server looks for a leader, or follows one."""
        self._hand_over(partial(self._become, state, leader_id, epoch))

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Hand over what is committed."""
        self._hand_over(partial(self._apply, batches, self.raft.is_leader))

    def _hand_over(self, handler: Handler) -> None:
        """Have a handler called on lane ``zookeeper``, after those handed over before."""
        if not self._inbox:
            self.out.append(Post(LANE, self._drain_inbox, None))
        self._inbox.append(handler)

    # ----------------------------------------------------------- lane zookeeper: from lane raft

    def _drain_inbox(self, message: None, now: int) -> None:
        inbox = self._inbox
        while inbox:
            inbox.popleft()(now)
        self._serve_if_ready()

    def _become(self, state: ServerState, leader_id: int, epoch: int, now: int) -> None:
        """Take a side in ``epoch``, or none while this server looks for a leader."""
        current = self.leader or self.learner
        looking = state is ServerState.LOOKING
        if current is not None and not looking and current.epoch == epoch:
            return
        self._stop_serving(now)
        if self.leader is not None:
            self.leader.stop()
            self.leader = None
        if self.learner is not None:
            self.learner.stop(now)
            self.learner = None
        if state is ServerState.LEADING:
            self.leader = EnsembleLeader(
                self.server_id,
                epoch,
                self.config.tick_us,
                self.rules,
                self.database,
                self.raft,
                self.timers,
                self._trace,
                self,
                now,
            )
        elif state is ServerState.FOLLOWING:
            address, limit_ms = self.servers[leader_id], self.config.sync_limit_ms
            self.learner = Learner(
                self, self.server_id, leader_id, address, epoch, limit_ms, self, now
            )

    def _apply(self, batches: tuple[RecordBatch, ...], leading: bool, now: int) -> None:
        """Apply committed batches; ``leading``: this server led when they were committed."""
        for batch in batches:
            zxid = batch.base_offset
            for record in batch.records:
                if batch.control:
                    self.database.skip(zxid)
                else:
                    self._apply_record(record.value, zxid, leading, now)
                zxid += 1
        self.clients.on_caught_up(now)

    def _apply_record(self, record: Any, zxid: int, leading: bool, now: int) -> None:
        kind = type(record)
        if leading and kind is CloseSession:
            self._record_end(record, zxid)
        result, changes = self.database.apply(record, zxid)
        if self.leader is not None:
            self.leader.on_applied(record, zxid, now)
        if leading and kind is CreateSession:
            self._trace.record(zxid, "created", record.client, record.server_id, zxid)
        self.clients.on_applied(record, result, changes, now)

    # ------------------------------------------- lane zookeeper: from the leader or the learner

    def on_append_refused(self, now: int) -> None:
        """Stop serving; lane ``raft`` will say what this server is now."""
        self._stop_serving(now)

    def on_joined(self, now: int) -> None:
        """Serve clients, if everything that the leader had proposed is applied already."""
        self._serve_if_ready()

    def on_link_lost(self, epoch: int, broken: bool, now: int) -> None:
        """Stop serving; if the connection broke, let lane ``raft`` doubt that the leader lives."""
        self._stop_serving(now)
        if broken:
            self.out.append(Post("raft", self._replica.suspect_leader, epoch))

    # --------------------------------------------------------------------------- serving or not

    def _serve_if_ready(self) -> None:
        if self.serving:
            return
        learner = self.learner
        if self.leader is not None:
            self.clients.serve(self.leader)
            self._record_role(ServerState.LEADING, self.leader.epoch, self.server_id)
        elif learner is not None and learner.is_joined:
            if self.database.last_zxid >= learner.serve_from:
                self.clients.serve(learner)
                self._record_role(ServerState.FOLLOWING, learner.epoch, learner.leader_id)

    def _stop_serving(self, now: int) -> None:
        if self.serving:
            self.clients.stop()
            if self.learner is not None:
                self.learner.forget_heard()
            self._record_role(ServerState.LOOKING, self.raft.epoch, self.raft.leader_id)

    def _record_role(self, state: ServerState, epoch: int, leader_id: int) -> None:
        self.out.append(ZooKeeperRole(state.value, epoch, leader_id))

    def _record_end(self, record: CloseSession, zxid: int) -> None:
        session = self.database.sessions.get(record.session_id)
        if session is not None:
            owner = None if self.leader is None else self.leader.owner(record.session_id)
            self._trace.record(record.session_id, record.reason, session.client, owner, zxid)

    def _arm_tick(self, now: int) -> None:
        self.timers.arm(TICK_TIMER, now + self.config.tick_us // 2, LANE, self._on_tick)

    def _on_tick(self, now: int) -> None:
        self.clients.close_silent(now)
        if self.learner is not None:
            self.learner.report(now)
        self._arm_tick(now)

    def _on_stopped(self, now: int) -> None:
        self.out.append(Exit("shutdown", True))
