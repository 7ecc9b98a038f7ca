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

A batch holds 10000 records at most; the records of an event that has more are several batches, each
replayed and committed on its own (ControllerResult.of, which is not atomic; only CreateTopics is,
and refuses that many). Left out: the KRaft migration, quotas.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Mapping
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import FeatureLevelRecord, NoOpRecord
from kafkasim.model.controller.common.responses import not_controller
from kafkasim.model.controller.kraft.committed import CommittedMetadata
from kafkasim.model.controller.kraft.managers.cluster import ClusterControlManager
from kafkasim.model.controller.kraft.managers.configs import ConfigurationControlManager
from kafkasim.model.controller.kraft.managers.features import FeatureControlManager
from kafkasim.model.controller.kraft.managers.heartbeats import BrokerHeartbeatManager
from kafkasim.model.controller.kraft.managers.log_dirs import LogDirControlManager
from kafkasim.model.controller.kraft.managers.reassignments import ReassignmentControlManager
from kafkasim.model.controller.kraft.managers.replication import (
    MAX_ELECTIONS,
    ReplicationControlManager,
)
from kafkasim.model.controller.kraft.managers.topics import TopicControlManager
from kafkasim.model.controller.kraft.ports import Raft
from kafkasim.model.controller.kraft.requests import ControllerApis
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.controller.kraft.snapshot import Snapshot, SnapshotGenerator, image_values
from kafkasim.model.directories import metadata_root
from kafkasim.model.effects import Exit, Post, Process, Request, Respond
from kafkasim.model.facts import ControllerActive
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    FetchSnapshotRequest,
    RaftFetchRequest,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
)
from kafkasim.model.raft.client import RaftClient
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.storage.files import Files
from kafkasim.model.storage.log.unified_log import UnifiedLog

LANE = "controller"
METADATA_TP = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.METADATA_TOPIC_ID
MAX_RECORDS_PER_BATCH = 10_000
INACTIVE = -1
PERIODIC = ("stale-check", "no-op", "unclean-scan", "balance")


class Managers:
    """The parts of an active controller; they start from the image at activation."""

    __slots__ = (
        "cluster",
        "configs",
        "features",
        "heartbeats",
        "log_dirs",
        "reassignments",
        "replication",
        "topics",
    )

    def __init__(self, image: MetadataImage, process: Controller, now: int) -> None:
        config = process.config
        self.heartbeats = BrokerHeartbeatManager(
            config.broker_session_timeout_ms * 1000, image, now
        )
        self.cluster = ClusterControlManager(image, self.heartbeats)
        self.replication = ReplicationControlManager(
            image, config, process.rules, self.cluster.default_directory
        )
        self.log_dirs = LogDirControlManager(image, self.replication)
        self.topics = TopicControlManager(image, self.cluster, config, process.placement_rng)
        self.reassignments = ReassignmentControlManager(image, self.replication)
        self.configs = ConfigurationControlManager(image, config)
        self.features = FeatureControlManager(image, process.rules.supported_features())


class Controller(Process):
    """One voter of the metadata quorum, or a standby that follows it; active while it leads.

    ``features`` are what kafka-storage format --feature put into the bootstrap metadata, and
    ``directory_id`` is the id that it gave the metadata log's directory.
    """

    default_lane = LANE
    request_lanes = {
        VoteRequest: "raft",
        BeginQuorumEpochRequest: "raft",
        EndQuorumEpochRequest: "raft",
        RaftFetchRequest: "raft",
        AddRaftVoterRequest: "raft",
        RemoveRaftVoterRequest: "raft",
        UpdateRaftVoterRequest: "raft",
        DescribeQuorumRequest: "raft",
        FetchSnapshotRequest: "raft",
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
        features: Mapping[str, int] | None = None,
        directory_id: str = "",
        whole: Process | None = None,
    ) -> None:
        super().__init__(name, files, rng, now, whole)
        self.node_id = node_id
        self.directory_id = directory_id
        self.features = dict(features or {})
        self.voters = dict(voters)  # the log may change it (KIP-853)
        self.config = config
        self.rules: ControllerRules = rules.controller
        self.placement_rng = random.Random(rng.getrandbits(64))
        self.committed = CommittedMetadata(self.out, config)
        self._snapshots = SnapshotGenerator(config, now)
        self.image = self.committed.image
        self.active_epoch = INACTIVE
        self.managers = Managers(self.image, self, now)
        self.parked: deque[tuple[int, Request, Any]] = deque()  # (last offset, request, response)
        self._claim: tuple[int, int] | None = None  # (epoch, end offset to be applied first)
        self._inbox: deque[tuple[int, int, int]] = deque()  # (leader or −2, epoch, end offset)
        self._handlers = ControllerApis(self).handlers
        self._written = -1  # the last offset that this active controller wrote
        self.raft = self.new_raft(rules, now)

    def new_raft(self, rules: Any, now: int) -> Raft:
        """Build the Raft client over the metadata log in this controller's files."""
        config = self.config
        log = UnifiedLog(
            self.files,
            self.out,
            f"{metadata_root(config.log_dirs, config.metadata_log_dir)}{METADATA_TP}",
            METADATA_TP,
            METADATA_TOPIC_ID,
            config.metadata_log_config(),
            rules.storage,
            clean=False,
            now_ms=self.wall_ms(now),
        )
        return RaftClient(
            self, self.node_id, self.voters, log, config, rules.raft, self.raft_listener(),
            directory_id=self.directory_id,
        )  # fmt: skip

    def raft_listener(self) -> Any:
        """Return whom the Raft client tells: this controller."""
        return self

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
            self.refuse(item)
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
        size = 0
        for batch in batches:
            committed.apply(batch, leading)
            size += batch.size
        if self._snapshots.published(size, now):
            values = image_values(committed.image, committed.digest)
            end_offset = committed.end_offset
            self.raft.create_snapshot(end_offset, batches[-1].leader_epoch, values, now)
        if self.parked or self._claim is not None or self._inbox:
            self._hand_over(-2, -1, committed.end_offset)

    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Start from a snapshot: at a restart, or where the leader's log no longer begins."""
        self.committed.load(Snapshot(end_offset, epoch, values))
        self._snapshots.reset(now)

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
        self._written = -1
        self.active_epoch = epoch
        self.image = self.committed.image.copy()
        self.managers = Managers(self.image, self, now)
        self.out.append(ControllerActive(epoch, True))
        if not self.image.features:
            features = {**self.rules.bootstrap_features(), **self.features}
            self.append([FeatureLevelRecord(name, features[name]) for name in features], now)
        self.arm_stale_check()
        config = self.config
        self._arm_no_op(now)
        arm = self.timers.arm
        arm("unclean-scan", now + self._unclean_interval_us(), LANE, self._on_unclean_scan)
        if config.auto_leader_rebalance_enable:
            arm("balance", now + self._balance_interval_us(), LANE, self._on_balance)

    def _renounce(self) -> None:
        """Go back to what is committed; nobody who waits gets more than NOT_CONTROLLER."""
        self.out.append(ControllerActive(self.active_epoch, False))
        self.active_epoch = INACTIVE
        self.image = self.committed.image
        for key in PERIODIC:
            self.timers.cancel(key)
        while self.parked:
            self.refuse(self.parked.popleft()[1])

    def _complete(self, end_offset: int) -> None:
        parked = self.parked
        while parked and parked[0][0] < end_offset:
            _, item, response = parked.popleft()
            self._respond(item, response)

    # Events.

    def append(self, records: list[Any], now: int) -> int | None:
        """Write an event's records and replay them; return the last offset, or None if this
        controller leads no longer."""
        last_offset: int | None = None
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            batch = records[start : start + MAX_RECORDS_PER_BATCH]
            last_offset = self.raft.schedule_append(self.active_epoch, batch, now)
            if last_offset is None:
                return None
            offset = last_offset - len(batch)
            for record in batch:
                offset += 1
                self.image.apply(record, offset, self.active_epoch)
            self._written = last_offset
        self._arm_no_op(now)
        return last_offset

    def finish(self, item: Request, records: list[Any], response: Any, now: int) -> bool:
        """Write an event's records and park its response behind them, or behind what is pending
        already: the response was read from a state that is not committed yet."""
        if records:
            if self.append(records, now) is None:
                self.refuse(item)
                return False
            self.parked.append((self._written, item, response))
        elif self._written >= self.committed.end_offset:
            self.parked.append((self._written, item, response))
        else:
            self._respond(item, response)
        return True

    def refuse(self, item: Request) -> None:
        """Answer that the active controller is elsewhere."""
        self._respond(item, not_controller(item.message))

    def _respond(self, item: Request, response: Any) -> None:
        self.out.append(Respond(item.connection, item.correlation, response))

    # Timers.

    def arm_stale_check(self) -> None:
        """Arm the check of sessions for the end of the first of them."""
        deadline = self.managers.heartbeats.next_check_us()
        if deadline is not None and not self.timers.armed("stale-check"):
            self.timers.arm("stale-check", deadline, LANE, self._on_stale_check)

    def _on_stale_check(self, now: int) -> None:
        """Fence at most one broker whose session ended; the next one is another event."""
        broker_id = self.managers.heartbeats.stale_broker(now)
        if broker_id is not None:
            if self.append(self.managers.replication.fence(broker_id), now) is None:
                return  # leadership is gone, and the inbox will say so
            self.managers.heartbeats.fence(broker_id)
        self.arm_stale_check()

    def _arm_no_op(self, now: int) -> None:
        if self.config.metadata_max_idle_interval_ms:
            deadline = now + self.config.metadata_max_idle_interval_ms * 1000
            self.timers.arm("no-op", deadline, LANE, self._on_no_op)

    def _on_no_op(self, now: int) -> None:
        self.append([NoOpRecord()], now)

    def _balance_interval_us(self) -> int:
        return self.config.leader_imbalance_check_interval_seconds * 1_000_000

    def _unclean_interval_us(self) -> int:
        return self.config.unclean_leader_election_interval_ms * 1000

    def _on_balance(self, now: int) -> None:
        """Elect preferred leaders; go on at once if there were more than one event may elect."""
        records = self.managers.replication.balance_leaders()
        self._append_some(records, now)
        delay = 0 if len(records) == MAX_ELECTIONS else self._balance_interval_us()
        self.timers.arm("balance", now + delay, LANE, self._on_balance)

    def _on_unclean_scan(self, now: int) -> None:
        self._append_some(self.managers.replication.elect_unclean(), now)
        deadline = now + self._unclean_interval_us()
        self.timers.arm("unclean-scan", deadline, LANE, self._on_unclean_scan)

    def _append_some(self, records: list[Any], now: int) -> None:
        if records:
            self.append(records, now)
