"""The controller process (QuorumController over KafkaRaftClient).

A controller is a voter of the metadata quorum, or a standby that follows it. It is active while it
leads the quorum; :class:`~kafkasim.model.controller.kraft.active.ActiveController` is what it then
has in addition. There are two images while it is active: the committed one, which lane ``raft``
feeds, and the one of the active controller, which also holds records that are not committed yet.
To resign is therefore to drop the second; to become active costs one copy.

Raft calls the listener on lane ``raft``. What concerns lane ``controller`` goes through one inbox,
so that commits and changes of leadership keep their order. Left out: the migration from ZooKeeper.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.deltas.snapshot import (
    Snapshot,
    SnapshotGenerator,
    image_values,
)
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.mutation_quota import (
    ControllerMutationQuotaManager,
)
from kafkasim.model.controller.common.responses import api_versions, not_controller
from kafkasim.model.controller.kraft.active import LANE, ActiveController
from kafkasim.model.controller.kraft.apis import ControllerApis
from kafkasim.model.controller.kraft.committed import CommittedMetadata
from kafkasim.model.controller.kraft.ports import Listeners, PartRules, Raft
from kafkasim.model.controller.kraft.requests import HANDLERS
from kafkasim.model.directories import metadata_root
from kafkasim.model.effects import Exit, Post, Process, Request, Respond
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    BeginQuorumEpochRequest,
    DescribeQuorumRequest,
    EndQuorumEpochRequest,
    EnvelopeRequest,
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

METADATA_TP = TopicPartition("__cluster_metadata", 0)
METADATA_TOPIC_ID = "AAAAAAAAAAAAAAAAAAAAAQ"  # Uuid.METADATA_TOPIC_ID


class Controller(Process):
    """A voter of the metadata quorum or a standby.

    ``voters``: the addresses of the voters, by id. ``features`` and ``directory_id``: the feature
    levels of the bootstrap metadata and the id of the metadata log's directory, as kafka-storage
    format has set them.
    ``voter_directories``: those of the first voters, if voters may change (kraft.version 1).
    ``whole``: the process that this controller is part of, in combined mode; its broker joins
    ``listeners``.
    """

    default_lane = LANE
    request_lanes = {
        VoteRequest: "raft",
        BeginQuorumEpochRequest: "raft",
        EndQuorumEpochRequest: "raft",
        RaftFetchRequest: "raft",
        AddRaftVoterRequest: "raft",
        ApiVersionsRequest: "raft",
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
        rules: PartRules,
        files: Files,
        rng: random.Random,
        now: int,
        features: Mapping[str, int] | None = None,
        directory_id: str = "",
        whole: Process | None = None,
        voter_directories: Mapping[int, str] | None = None,
    ) -> None:
        super().__init__(name, files, rng, now, whole)
        self.voter_directories = voter_directories
        self.node_id = node_id
        self.directory_id = directory_id
        self.features = dict(features or {})
        self.voters = dict(voters)  # the log may change it (KIP-853)
        self.config = config
        self.network_threads = config.num_network_threads
        self.queued_max_requests = config.queued_max_requests
        self.rules = rules.controller
        self.placement_rng = random.Random(rng.getrandbits(64))
        self.committed = CommittedMetadata(self.out, config)
        self._quotas = ControllerMutationQuotaManager(
            config, lambda: self.committed.image.client_quotas
        )
        self._snapshots = SnapshotGenerator(config, now)
        self.active: ActiveController | None = None
        # (epoch, end offset to be replayed first, what ended the leadership before in words)
        self._claim: tuple[int, int, str] | None = None
        self._inbox: deque[Callable[[int], None]] = deque()
        self._apis: ControllerApis | None = None
        if config.authorizer_class_name:
            self._apis = ControllerApis(
                self, self.committed.image, config, rules.authorizer,
                lambda: self.active is not None, self._serve,
            )  # fmt: skip
        self.listeners = Listeners(self)
        self.raft = self.new_raft(rules, now)

    def new_raft(self, rules: PartRules, now: int) -> Raft:
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
            self, self.node_id, self.voters, log, config, rules.raft, self.listeners,
            directory_id=self.directory_id, voter_directories=self.voter_directories,
        )  # fmt: skip

    @property
    def image(self) -> MetadataImage:
        """The newest image: that of the active controller, or the committed one."""
        return self.committed.image if self.active is None else self.active.image

    def start(self, now: int) -> None:
        """Join the quorum."""
        self.raft.start(now)

    def shutdown(self, now: int) -> None:
        """Stop cleanly: hand over the leadership first."""
        self.raft.shutdown(now, self._on_stopped)

    def _on_stopped(self, now: int) -> None:
        self.out.append(Exit("shutdown", True))

    def on_request(self, item: Request, now: int) -> None:
        """Serve requests of the quorum on lane ``raft`` and all others on lane ``controller``."""
        envelope = item.message if type(item.message) is EnvelopeRequest else None
        if envelope is None:
            self._serve(item, now)
        elif self._apis is not None:
            self._apis.handle(item, now)
        else:
            item = Request(item.connection, item.correlation, envelope.request, item.received_us)
            self._serve(item, now, envelope)

    def _serve(self, item: Request, now: int, envelope: EnvelopeRequest | None = None) -> None:
        if type(item.message) is ApiVersionsRequest:
            response = api_versions(self.committed.image, self.raft.kraft_version())
            self.out.append(Respond(item.connection, item.correlation, response))
        elif type(item.message) not in HANDLERS:
            self.raft.on_request(item, now)
        elif self.active is None:
            response = not_controller(item.message)
            self.out.append(Respond(item.connection, item.correlation, response))
        else:
            self.active.serve(item, now, envelope)

    # Raft's listener, on lane raft.

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """Note the leader, −1 for none; lane ``controller`` acts on it."""
        end_offset = self.raft.log_end_offset
        cause = self.raft.cause
        self._hand_over(partial(self._on_leadership, leader_id, epoch, end_offset, cause))

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Replay committed batches, and let lane ``controller`` send the responses parked there."""
        committed = self.committed
        leading = self.raft.is_leader
        size = 0
        for batch in batches:
            committed.apply(batch, leading)
            size += batch.size
        if self._apis is not None and committed.end_offset >= high_watermark:
            self._apis.loaded = True
        if self._snapshots.published(size, now):
            values = image_values(committed.image, committed.digest)
            end_offset = committed.end_offset
            self.raft.create_snapshot(end_offset, batches[-1].leader_epoch, values, now)
        waiting = self.active is not None and self.active.parked
        if waiting or self._claim is not None or self._inbox:
            self._hand_over(partial(self._on_committed, committed.end_offset))

    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Replace the committed image: at a restart, or if the leader's log no longer begins
        early enough."""
        self.committed.load(Snapshot(end_offset, epoch, values))
        self._snapshots.reset(now)

    def _hand_over(self, handler: Callable[[int], None]) -> None:
        """Let ``handler(now)`` run on lane ``controller``, in order."""
        if not self._inbox:
            self.out.append(Post(LANE, self._drain_inbox, None))
        self._inbox.append(handler)

    # Leadership and commits, on lane controller.

    def _drain_inbox(self, message: None, now: int) -> None:
        while self._inbox:
            self._inbox.popleft()(now)
        claim = self._claim
        if claim is not None and self.committed.end_offset >= claim[1]:
            self._activate(claim[0], claim[2], now)

    def _on_committed(self, end_offset: int, now: int) -> None:
        if self.active is not None:
            self.active.complete(end_offset, now)

    def _on_leadership(
        self, leader_id: int, epoch: int, end_offset: int, cause: str, now: int
    ) -> None:
        """Resign if another leads or the epoch is new; claim the leadership if it is ours."""
        active, mine = self.active, leader_id == self.node_id
        if not mine or (active is not None and active.epoch != epoch):
            if active is not None:
                self.active = None
                active.resign(cause)
            self._claim = None
        if mine and self.active is None:
            self._claim = (epoch, end_offset, cause)

    def _activate(self, epoch: int, cause: str, now: int) -> None:
        """Become active: everything written before this epoch is committed and replayed."""
        self._claim = None
        self.active = ActiveController(
            epoch, self.raft, self.committed, self.config, self.rules, self.placement_rng,
            self.timers, self.out, self._quotas, now,
        )  # fmt: skip
        self.active.activate(self.features, cause, now)
