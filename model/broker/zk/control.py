"""Control requests of a ZooKeeper controller: LeaderAndIsr, UpdateMetadata, StopReplica.

Models the control requests of KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas. A
request is checked in this order: is it meant for this incarnation of the broker (broker epoch),
does it come from the newest controller that this broker knows (controller epoch), and for each
partition, is its leader epoch newer than the replica's.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.broker.zk.metadata_cache import ZkMetadataCache, registration
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ControlRequest
from kafkasim.model.messages import (
    ControlPartition,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
    request_name,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.broker.common.apis import Handler
    from kafkasim.model.broker.common.coordinators.registry import Coordinator, CoordinatorTopics
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.controller.common.image import PartitionRegistration
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.replication.manager import ReplicaManager

NONE = Errors.NONE
Respond = Callable[[Request, Any, int], None]


class TopicConfigs(Protocol):
    """Keeps the topics' settings; LeaderAndIsr carries those of topics that are new here."""

    def learn(self, topic: str, entries: tuple[tuple[str, str], ...], zxid: int) -> None:
        """Take over a topic's settings as of transaction ``zxid``, unless newer ones are known."""
        ...


class ControllerEpochs:
    """The controller epochs that a broker has seen in control requests it accepted."""

    def __init__(self) -> None:
        self.latest = 0
        self.of_partition: dict[TopicPartition, int] = {}  # the one that wrote its state


class ControlRequests:
    """Serves the controller's requests.

    ``respond`` is KafkaApis.respond; ``roles_taken(now)`` is called after every LeaderAndIsr that
    was accepted, ``cache_updated(now)`` after every UpdateMetadata. The group coordinator hears of
    the partitions that an UpdateMetadata says are deleted by ``partitions_deleted(tps, now)``.
    """

    def __init__(
        self,
        out: list[Any],
        incarnation: Incarnation,
        rules: ZkControllerRules,
        epochs: ControllerEpochs,
        cache: ZkMetadataCache,
        configs: TopicConfigs,
        replicas: ReplicaManager,
        coordinators: CoordinatorTopics,
        partitions_deleted: Callable[[tuple[TopicPartition, ...], int], None],
        respond: Respond,
        roles_taken: Callable[[int], None],
        cache_updated: Callable[[int], None],
    ) -> None:
        self.out = out
        self.incarnation = incarnation
        self.rules = rules
        self.epochs = epochs
        self.cache = cache
        self.configs = configs
        self.replicas = replicas
        self.coordinators = coordinators
        self.partitions_deleted = partitions_deleted
        self.respond = respond
        self.roles_taken = roles_taken
        self.cache_updated = cache_updated
        self.handlers: dict[type, Handler] = {
            LeaderAndIsrRequest: self.on_leader_and_isr,
            UpdateMetadataRequest: self.on_update_metadata,
            StopReplicaRequest: self.on_stop_replica,
        }

    def _refusal(self, request: Any) -> Errors:
        """Return why a request as a whole is refused, NONE if it is accepted."""
        if self.rules.is_stale_broker_epoch(request.broker_epoch, self.incarnation.epoch):
            error = Errors.STALE_BROKER_EPOCH
        elif not self.rules.accepts_controller_epoch(request.controller_epoch, self.epochs.latest):
            error = Errors.STALE_CONTROLLER_EPOCH
        else:
            self.epochs.latest = max(request.controller_epoch, self.epochs.latest)
            error = NONE
        self.out.append(
            ControlRequest(
                request_name(request), request.controller_id, request.controller_epoch, error.name
            )
        )
        return error

    # ---------------------------------------------------------------------------- LeaderAndIsr

    def on_leader_and_isr(self, item: Request, now: int) -> None:
        """Give the named partitions their roles (becomeLeaderOrFollower)."""
        request: LeaderAndIsrRequest = item.message
        error = self._refusal(request)
        results: list[tuple[TopicPartition, Errors]] = []
        if error is NONE:
            for topic, entries, zxid in request.configs:
                self.configs.learn(topic, entries, zxid)
            results = self._change_roles(request, now)
            self.roles_taken(now)
        self.respond(item, LeaderAndIsrResponse(error, tuple(results)), now)

    def _change_roles(
        self, request: LeaderAndIsrRequest, now: int
    ) -> list[tuple[TopicPartition, Errors]]:
        hosted = self.replicas.partitions
        results: dict[TopicPartition, Errors] = {}
        states: dict[TopicPartition, tuple[str, PartitionRegistration]] = {}
        accepted: list[ControlPartition] = []
        for state in request.partitions:
            tp = state.tp
            partition = hosted.get(tp)
            current = -1 if partition is None else partition.leader_epoch
            if partition is not None and partition.offline:
                results[tp] = Errors.KAFKA_STORAGE_ERROR
            elif partition is not None and partition.topic_id != state.topic_id:
                results[tp] = Errors.INCONSISTENT_TOPIC_ID
            elif not self.rules.accepts_leader_epoch(state, current):
                results[tp] = Errors.STALE_CONTROLLER_EPOCH
            elif self.incarnation.broker_id not in state.replicas:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
            else:
                results[tp] = NONE
                states[tp] = (state.topic_id, registration(state))
                self.epochs.of_partition[tp] = state.controller_epoch
                accepted.append(state)
        new = dict.fromkeys([state.tp for state in accepted if state.is_new])
        me = self.incarnation.broker_id
        led = [tp for tp in states if tp in hosted and hosted[tp].leader_id == me]
        failed = self.replicas.roles.become_leader_or_follower(states, now, new)
        results.update(failed)
        for state in accepted:
            coordinator = self.coordinators.coordinator_of(state.tp.topic)
            if coordinator is not None:
                self._tell(coordinator, state, state.tp in failed, state.tp in led, now)
        return list(results.items())

    def _tell(
        self, coordinator: Coordinator, state: ControlPartition, failed: bool, led: bool, now: int
    ) -> None:
        """Load or unload a coordinator's partition after a change of roles (onLeadershipChange).

        ``led``: this broker led it before, so a new leader epoch loads nothing (makeLeader).
        """
        number = state.tp.partition
        if state.leader == self.incarnation.broker_id:
            if not failed and not led:
                coordinator.on_elected(number, state.leader_epoch, now)
        elif self.rules.unloads_coordinator(failed):
            coordinator.on_resigned(number, state.leader_epoch, now)

    # -------------------------------------------------------------------------- UpdateMetadata

    def on_update_metadata(self, item: Request, now: int) -> None:
        """Update the metadata cache; tell the coordinators of deleted partitions.

        They give up those that are their own, and forget the offsets of the others (KafkaApis
        .handleUpdateMetadataRequest, GroupCoordinator.handleDeletedPartitions).
        """
        request: UpdateMetadataRequest = item.message
        error = self._refusal(request)
        if error is NONE:
            deleted = self.cache.update(request)
            for state in deleted:
                coordinator = self.coordinators.coordinator_of(state.tp.topic)
                if coordinator is not None:
                    coordinator.on_resigned(state.tp.partition, None, now)
            if deleted:
                self.partitions_deleted(tuple([state.tp for state in deleted]), now)
            self.cache_updated(now)
        self.respond(item, UpdateMetadataResponse(error), now)

    # ----------------------------------------------------------------------------- StopReplica

    def on_stop_replica(self, item: Request, now: int) -> None:
        """Stop replicas, and delete the logs of those the request says (stopReplicas)."""
        request: StopReplicaRequest = item.message
        error = self._refusal(request)
        results: list[tuple[TopicPartition, Errors]] = []
        if error is NONE:
            for asked in request.partitions:
                results.append((asked.tp, self._stop(asked, now)))
        self.respond(item, StopReplicaResponse(error, tuple(results)), now)

    def _stop(self, asked: Any, now: int) -> Errors:
        partition = self.replicas.partitions.get(asked.tp)
        if asked.tp in self.replicas.hosted.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if partition is None:
            return NONE
        if partition.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if not self.rules.may_stop_replica(asked, partition.leader_epoch):
            return Errors.FENCED_LEADER_EPOCH
        delete = asked.delete_partition
        self.replicas.roles.stop(asked.tp, partition.topic_id, now, delete)
        coordinator = self.coordinators.coordinator_of(asked.tp.topic)
        if coordinator is not None and delete:
            coordinator.on_resigned(asked.tp.partition, None, now)
        return NONE
