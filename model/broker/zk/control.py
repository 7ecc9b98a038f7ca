"""How a broker obeys a ZooKeeper controller: LeaderAndIsr, UpdateMetadata, StopReplica.

Kafka: the control requests of KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas,
ZkMetadataCache. Every request is checked in this order: is it meant for this incarnation (broker
epoch), does it come from the newest controller heard of (controller epoch), and per partition, is
its leader epoch a newer one. UpdateMetadata fills the same image that a KRaft broker replays from
its log, so what serves clients does not know the difference.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ControlRequest
from kafkasim.model.group.runtime.ports import OFFSETS_TOPIC
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
from kafkasim.model.messages.servers.control import LEADER_DURING_DELETE
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.broker import ZkBroker
    from kafkasim.model.controller.zk.rules import ZkControllerRules

NONE = Errors.NONE


class ZkMetadataCache:
    """What UpdateMetadata told. ``leader_id`` is the controller that told it last."""

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.published = True  # a broker serves with an empty cache, too
        self.leader_id = -1

    def update(self, request: UpdateMetadataRequest) -> list[ControlPartition]:
        """Take a request over; return the partitions that are deleted."""
        self.leader_id = request.controller_id
        brokers = self.image.brokers
        brokers.clear()
        for each in request.live_brokers:
            brokers[each.id] = BrokerImage(each.id, -1, "", each.address, each.rack, False, False)
        deleted: list[ControlPartition] = []
        for state in request.partitions:
            if state.leader == LEADER_DURING_DELETE:
                deleted.append(state)
                self._forget(state)
            else:
                self._topic(state).partitions[state.tp.partition] = registration(state)
        return deleted

    def _topic(self, state: ControlPartition) -> TopicImage:
        image, name = self.image, state.tp.topic
        topic = image.topics.get(state.topic_id)
        if topic is None:
            before = image.topic_names.get(name)
            if before is not None:  # another topic of that name
                del image.topics[before]
            topic = image.topics[state.topic_id] = TopicImage(name, state.topic_id)
            image.topic_names[name] = state.topic_id
        return topic

    def _forget(self, state: ControlPartition) -> None:
        image = self.image
        topic = image.topics.get(state.topic_id)
        if topic is None:
            return
        topic.partitions.pop(state.tp.partition, None)
        if not topic.partitions:
            del image.topics[state.topic_id]
            del image.topic_names[state.tp.topic]
            image.configs.pop(state.tp.topic, None)


def registration(state: ControlPartition) -> PartitionRegistration:
    """Return a partition's state as the parts of a broker take it."""
    return PartitionRegistration(
        state.replicas,
        state.isr,
        state.removing_replicas,
        state.adding_replicas,
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.leader_recovery_state,
        (),
        (),
    )


class ControlRequests:
    """Serves control requests; ``controller_epoch`` is the largest one obeyed."""

    def __init__(self, broker: ZkBroker, cache: ZkMetadataCache, rules: ZkControllerRules) -> None:
        self.broker = broker
        self.cache = cache
        self.rules = rules
        self.controller_epoch = 0
        self.epochs: dict[TopicPartition, int] = {}  # the controller epoch of each state

    def _refusal(self, request: Any) -> Errors:
        """Return why a request as a whole is refused."""
        broker = self.broker
        if self.rules.is_stale_broker_epoch(request.broker_epoch, broker.broker_epoch):
            error = Errors.STALE_BROKER_EPOCH
        elif not self.rules.accepts_controller_epoch(
            request.controller_epoch, self.controller_epoch
        ):
            error = Errors.STALE_CONTROLLER_EPOCH
        else:
            self.controller_epoch = max(request.controller_epoch, self.controller_epoch)
            error = NONE
        broker.out.append(
            ControlRequest(
                request_name(request), request.controller_id, request.controller_epoch, error.name
            )
        )
        return error

    # ---------------------------------------------------------------------------- LeaderAndIsr

    def on_leader_and_isr(self, item: Request, now: int) -> None:
        """Take roles (becomeLeaderOrFollower)."""
        request: LeaderAndIsrRequest = item.message
        error = self._refusal(request)
        results: list[tuple[TopicPartition, Errors]] = []
        if error is NONE:
            for topic, entries, zxid in request.configs:
                self.broker.configs.learn(topic, entries, zxid)
            results = self._change_roles(request, now)
            self.broker.on_first_roles(now)
        self.broker.apis.respond(item, LeaderAndIsrResponse(error, tuple(results)), now)

    def _change_roles(
        self, request: LeaderAndIsrRequest, now: int
    ) -> list[tuple[TopicPartition, Errors]]:
        broker, hosted = self.broker, self.broker.replicas.partitions
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
            elif broker.broker_id not in state.replicas:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
            else:
                results[tp] = NONE
                states[tp] = (state.topic_id, registration(state))
                self.epochs[tp] = state.controller_epoch
                accepted.append(state)
        log_dirs = broker.replicas.log_dirs
        log_dirs.new = dict.fromkeys([state.tp for state in accepted if state.is_new])
        failed = broker.replicas.become_leader_or_follower(states, now)
        results.update(failed)
        for state in accepted:
            if state.tp.topic == OFFSETS_TOPIC:
                self._tell_coordinator(state, state.tp in failed, now)
        return list(results.items())

    def _tell_coordinator(self, state: ControlPartition, failed: bool, now: int) -> None:
        """Load or unload the coordinator's partition (onLeadershipChange)."""
        broker, number = self.broker, state.tp.partition
        if state.leader == broker.broker_id:
            if not failed:
                broker.coordinator.on_elected(number, state.leader_epoch, now)
        elif self.rules.unloads_coordinator(failed):
            broker.coordinator.on_resigned(number, state.leader_epoch, now)

    # -------------------------------------------------------------------------- UpdateMetadata

    def on_update_metadata(self, item: Request, now: int) -> None:
        """Fill the metadata cache."""
        request: UpdateMetadataRequest = item.message
        error = self._refusal(request)
        if error is NONE:
            for state in self.cache.update(request):
                if state.tp.topic == OFFSETS_TOPIC:
                    self.broker.coordinator.on_resigned(state.tp.partition, None, now)
        self.broker.apis.respond(item, UpdateMetadataResponse(error), now)

    # ----------------------------------------------------------------------------- StopReplica

    def on_stop_replica(self, item: Request, now: int) -> None:
        """Stop replicas, and delete those that shall go (stopReplicas)."""
        request: StopReplicaRequest = item.message
        error = self._refusal(request)
        results: list[tuple[TopicPartition, Errors]] = []
        if error is NONE:
            for asked in request.partitions:
                results.append((asked.tp, self._stop(asked, now)))
        self.broker.apis.respond(item, StopReplicaResponse(error, tuple(results)), now)

    def _stop(self, asked: Any, now: int) -> Errors:
        broker = self.broker
        partition = broker.replicas.partitions.get(asked.tp)
        if asked.tp in broker.replicas.log_dirs.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if partition is None:
            return NONE
        if partition.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if not self.rules.may_stop_replica(asked, partition.leader_epoch):
            return Errors.FENCED_LEADER_EPOCH
        delete = asked.delete_partition
        broker.replicas.stop_replica(asked.tp, partition.topic_id, now, delete)
        if asked.tp.topic == OFFSETS_TOPIC and delete:
            broker.coordinator.on_resigned(asked.tp.partition, None, now)
        return NONE
