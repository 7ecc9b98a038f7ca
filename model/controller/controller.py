"""The controller process (org.apache.kafka.controller.QuorumController over KafkaRaftClient).

Rules of this file. An event of lane ``controller`` yields records and a response. The records are
appended to the metadata log as one batch and replayed into the image at once; the response is
parked until the high watermark passes them (or, without records, whatever is pending before them).
Nothing else changes the image. Losing the leadership drops the image for the committed one and
fails what is parked with NOT_CONTROLLER. There are two images while active: the committed one,
which lane ``raft`` feeds, and the one that is ahead of it; a revert is therefore free, and a new
active controller pays one copy.

Raft calls the listener on lane ``raft``; what concerns lane ``controller`` goes through one inbox,
so that commits and changes of leadership keep their order.

Left out: snapshots, the KRaft migration, quotas, the 10000 records limit of a batch.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from typing import Any

from model.config import BrokerConfig, TopicConfig
from model.controller.cluster import ClusterControlManager
from model.controller.committed import CommittedMetadata
from model.controller.heartbeats import BrokerHeartbeatManager
from model.controller.image import MetadataImage
from model.controller.ports import Raft, not_controller
from model.controller.records import FeatureLevelRecord, NoOpRecord, ProducerIdsRecord
from model.controller.replication import ReplicationControlManager
from model.controller.rules import ControllerRules
from model.controller.topics import TopicControlManager
from model.effects import Exit, Post, Process, Request, Respond
from model.errors import Errors
from model.facts import ControllerActive
from model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    BeginQuorumEpochRequest,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateTopicsRequest,
    ElectLeadersRequest,
    EndQuorumEpochRequest,
    RaftFetchRequest,
    VoteRequest,
)
from model.raft.client import RaftClient
from model.records import RecordBatch, TopicPartition
from model.storage.files import Files
from model.storage.log import Log

LANE = "controller"
METADATA_TP = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.METADATA_TOPIC_ID
PRODUCER_ID_BLOCK = 1000
UNCLEAN_ELECTION_INTERVAL_US = 300_000_000  # unclean.leader.election.interval.ms
INACTIVE = -1


class Managers:
    """The parts of an active controller; they start from the image at activation."""

    __slots__ = ("cluster", "heartbeats", "replication", "topics")

    def __init__(self, image: MetadataImage, process: Controller, now: int) -> None:
        config = process.config
        self.heartbeats = BrokerHeartbeatManager(
            config.broker_session_timeout_ms * 1000, image, now
        )
        self.cluster = ClusterControlManager(image, self.heartbeats)
        self.replication = ReplicationControlManager(image, config, process.rules)
        self.topics = TopicControlManager(image, self.cluster, config, process.placement_rng)


class Controller(Process):
    """One voter of the metadata quorum; active while it leads."""

    default_lane = LANE
    request_lanes = {
        VoteRequest: "raft",
        BeginQuorumEpochRequest: "raft",
        EndQuorumEpochRequest: "raft",
        RaftFetchRequest: "raft",
    }

    def __init__(
        self,
        name: str,
        node_id: int,
        voters: dict[int, str],
        config: BrokerConfig,
        rules: Any,
        files: Files,
        rng: random.Random,
        now: int,
    ) -> None:
        super().__init__(name, files, rng, now)
        self.node_id = node_id
        self.voters = voters
        self.config = config
        self.rules: ControllerRules = rules.controller
        self.placement_rng = random.Random(rng.getrandbits(64))
        self.committed = CommittedMetadata(self.out, config)
        self.image = self.committed.image
        self.active_epoch = INACTIVE
        self.managers = Managers(self.image, self, now)
        self.parked: deque[tuple[int, Request, Any]] = deque()  # (last offset, request, response)
        self._claim: tuple[int, int] | None = None  # (epoch, end offset to be applied first)
        self._inbox: deque[tuple[int, int, int]] = deque()  # (leader or −2, epoch, end offset)
        self._handlers: dict[type, Callable[[Request, Any, int], None]] = {
            BrokerHeartbeatRequest: self._on_heartbeat,
            AlterPartitionRequest: self._on_alter_partition,
            BrokerRegistrationRequest: self._on_registration,
            CreateTopicsRequest: self._on_create_topics,
            ElectLeadersRequest: self._on_elect_leaders,
            AllocateProducerIdsRequest: self._on_allocate_producer_ids,
        }
        self.raft = self.new_raft(rules, now)

    def new_raft(self, rules: Any, now: int) -> Raft:
        """Build the Raft client over the metadata log in this controller's files."""
        log = Log(
            self.files,
            self.out,
            f"{METADATA_TP}",
            METADATA_TP,
            METADATA_TOPIC_ID,
            TopicConfig(retention_ms=-1),
            rules.storage,
            clean=False,
            now_ms=self.wall_ms(now),
        )
        return RaftClient(self, self.node_id, self.voters, log, self.config, rules.raft, self)

    @property
    def active(self) -> bool:
        """Whether this is the active controller, as far as it knows."""
        return self.active_epoch != INACTIVE

    def start(self, now: int) -> None:
        """Join the quorum."""
        self.raft.start(now)

    def shutdown(self, now: int) -> None:
        """Stop cleanly: hand over the leadership first."""
        self.raft.shutdown(now, self._on_stopped)

    def _on_stopped(self, now: int) -> None:
        self.out.append(Exit("shutdown", True))

    def on_request(self, item: Request, now: int) -> None:
        """Serve the quorum on lane ``raft`` and everybody else on lane ``controller``."""
        message = item.message
        handler = self._handlers.get(type(message))
        if handler is None:
            self.raft.on_request(item, now)
        elif self.active_epoch == INACTIVE:
            self._respond(item, not_controller(message))
        else:
            handler(item, message, now)

    # Raft's listener, on lane raft.

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """Take note of a leader, or of −1; lane ``controller`` acts on it."""
        self._hand_over(leader_id, epoch, self.raft.log_end_offset)

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Replay what is committed, and let lane ``controller`` answer who waits for it."""
        committed = self.committed
        leading = self.raft.is_leader
        for batch in batches:
            committed.apply(batch, leading)
        if self.parked or self._claim is not None or self._inbox:
            self._hand_over(-2, -1, committed.end_offset)

    def _hand_over(self, leader_id: int, epoch: int, end_offset: int) -> None:
        if not self._inbox:
            self.out.append(Post(LANE, self._drain_inbox, None))
        self._inbox.append((leader_id, epoch, end_offset))

    # Leadership and commits, on lane controller.

    def _drain_inbox(self, message: None, now: int) -> None:
        inbox = self._inbox
        while inbox:
            leader_id, epoch, end_offset = inbox.popleft()
            if leader_id == -2:
                self._complete(end_offset)
            else:
                self._on_leadership(leader_id, epoch, end_offset, now)
        claim = self._claim
        if claim is not None and self.committed.end_offset >= claim[1]:
            self._activate(claim[0], now)

    def _on_leadership(self, leader_id: int, epoch: int, end_offset: int, now: int) -> None:
        if self.active_epoch not in (INACTIVE, epoch) or leader_id != self.node_id:
            if self.active_epoch != INACTIVE:
                self._renounce()
            self._claim = None
        if leader_id == self.node_id and self.active_epoch == INACTIVE:
            self._claim = (epoch, end_offset)

    def _activate(self, epoch: int, now: int) -> None:
        """Become active: all that was written before is committed and replayed."""
        self._claim = None
        self.active_epoch = epoch
        self.image = self.committed.image.copy()
        self.managers = Managers(self.image, self, now)
        self.out.append(ControllerActive(epoch, True))
        if not self.image.features:
            features = self.rules.bootstrap_features()
            self._append([FeatureLevelRecord(name, features[name]) for name in features], now)
        self._arm_stale_check()
        config = self.config
        self._arm_no_op(now)
        arm = self.timers.arm
        arm("unclean-scan", now + UNCLEAN_ELECTION_INTERVAL_US, LANE, self._on_unclean_scan)
        if config.auto_leader_rebalance_enable:
            arm("balance", now + self._balance_interval_us(), LANE, self._on_balance)

    def _renounce(self) -> None:
        """Go back to what is committed; nobody who waits gets more than NOT_CONTROLLER."""
        self.out.append(ControllerActive(self.active_epoch, False))
        self.active_epoch = INACTIVE
        self.image = self.committed.image
        for key in ("stale-check", "no-op", "unclean-scan", "balance"):
            self.timers.cancel(key)
        while self.parked:
            _, item, _ = self.parked.popleft()
            self._respond(item, not_controller(item.message))

    def _complete(self, end_offset: int) -> None:
        parked = self.parked
        while parked and parked[0][0] < end_offset:
            _, item, response = parked.popleft()
            self._respond(item, response)

    # Events.

    def _append(self, records: list[Any], now: int) -> int | None:
        """Write one batch and replay it; return its last offset, or None if no longer leader."""
        last_offset = self.raft.schedule_append(self.active_epoch, records, now)
        if last_offset is None:
            return None
        offset = last_offset - len(records)
        for record in records:
            offset += 1
            self.image.apply(record, offset, self.active_epoch)
        self._arm_no_op(now)
        return last_offset

    def _finish(self, item: Request, records: list[Any], response: Any, now: int) -> bool:
        """Write an event's records and park its response behind them."""
        if records:
            last_offset = self._append(records, now)
            if last_offset is None:
                self._respond(item, not_controller(item.message))
                return False
            self.parked.append((last_offset, item, response))
        elif self.parked:  # it was read from a state that is not committed yet
            self.parked.append((self.parked[-1][0], item, response))
        else:
            self._respond(item, response)
        return True

    def _respond(self, item: Request, response: Any) -> None:
        self.out.append(Respond(item.connection, item.correlation, response))

    # Requests.

    def _on_registration(self, item: Request, request: BrokerRegistrationRequest, now: int) -> None:
        managers = self.managers
        error = managers.cluster.may_register(request, now)
        if error != Errors.NONE:
            self._finish(item, [], BrokerRegistrationResponse(error, -1), now)
            return
        previous = self.image.brokers.get(request.broker_id)
        records: list[Any] = []
        if previous is not None and previous.incarnation_id != request.incarnation_id:
            if self.rules.on_reregistration(previous):
                unclean = self.rules.is_unclean_restart(previous, request)
                records += managers.replication.fence(previous.id, "registered", unclean)
        record = managers.cluster.registration(request)
        last_offset = self._append([*records, record], now)
        if last_offset is None:
            self._respond(item, not_controller(request))
            return
        epoch = self.image.brokers[request.broker_id].epoch
        managers.heartbeats.register(request.broker_id, record.fenced, now)
        self.parked.append((last_offset, item, BrokerRegistrationResponse(Errors.NONE, epoch)))
        self._arm_stale_check()

    def _on_heartbeat(self, item: Request, request: BrokerHeartbeatRequest, now: int) -> None:
        broker = self.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            refusal = BrokerHeartbeatResponse(Errors.STALE_BROKER_EPOCH, False, True, False)
            self._finish(item, [], refusal, now)
            return
        heartbeats = self.managers.heartbeats
        records, fenced, stop = self.managers.replication.process_heartbeat(
            broker, request, heartbeats
        )
        caught_up = request.current_metadata_offset >= broker.epoch
        response = BrokerHeartbeatResponse(Errors.NONE, caught_up, fenced, stop)
        if not self._finish(item, records, response, now):
            return
        heartbeats.touch(broker.id, fenced, request.current_metadata_offset, now)
        if records and not fenced and request.want_shut_down:
            heartbeats.start_shutdown(broker.id, self.image.offset)
        if broker.fenced and not fenced:
            self._arm_stale_check()

    def _on_alter_partition(self, item: Request, request: AlterPartitionRequest, now: int) -> None:
        error = self.managers.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            self._finish(item, [], AlterPartitionResponse(error, ()), now)
            return
        records, response = self.managers.replication.alter_partition(request)
        self._finish(item, records, response, now)

    def _on_create_topics(self, item: Request, request: CreateTopicsRequest, now: int) -> None:
        records, response = self.managers.topics.create_topics(request)
        self._finish(item, records, response, now)

    def _on_elect_leaders(self, item: Request, request: ElectLeadersRequest, now: int) -> None:
        records, response = self.managers.replication.elect_leaders(request)
        self._finish(item, records, response, now)

    def _on_allocate_producer_ids(
        self, item: Request, request: AllocateProducerIdsRequest, now: int
    ) -> None:
        error = self.managers.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            self._finish(item, [], AllocateProducerIdsResponse(error, -1, 0), now)
            return
        start = self.image.next_producer_id
        following = start + PRODUCER_ID_BLOCK
        record = ProducerIdsRecord(request.broker_id, request.broker_epoch, following)
        response = AllocateProducerIdsResponse(Errors.NONE, start, PRODUCER_ID_BLOCK)
        self._finish(item, [record], response, now)

    # Timers.

    def _arm_stale_check(self) -> None:
        deadline = self.managers.heartbeats.next_check_us()
        if deadline is not None and not self.timers.armed("stale-check"):
            self.timers.arm("stale-check", deadline, LANE, self._on_stale_check)

    def _on_stale_check(self, now: int) -> None:
        """Fence at most one broker whose session ended; the next one is another event."""
        broker_id = self.managers.heartbeats.stale_broker(now)
        if broker_id is not None:
            if self._append(self.managers.replication.fence(broker_id), now) is None:
                return  # leadership is gone, and the inbox will say so
            self.managers.heartbeats.fence(broker_id)
        self._arm_stale_check()

    def _arm_no_op(self, now: int) -> None:
        if self.config.metadata_max_idle_interval_ms:
            deadline = now + self.config.metadata_max_idle_interval_ms * 1000
            self.timers.arm("no-op", deadline, LANE, self._on_no_op)

    def _on_no_op(self, now: int) -> None:
        self._append([NoOpRecord()], now)

    def _balance_interval_us(self) -> int:
        return self.config.leader_imbalance_check_interval_seconds * 1_000_000

    def _on_balance(self, now: int) -> None:
        self._append_some(self.managers.replication.balance_leaders(), now)
        self.timers.arm("balance", now + self._balance_interval_us(), LANE, self._on_balance)

    def _on_unclean_scan(self, now: int) -> None:
        self._append_some(self.managers.replication.elect_unclean(), now)
        deadline = now + UNCLEAN_ELECTION_INTERVAL_US
        self.timers.arm("unclean-scan", deadline, LANE, self._on_unclean_scan)

    def _append_some(self, records: list[Any], now: int) -> None:
        if records:
            self._append(records, now)
