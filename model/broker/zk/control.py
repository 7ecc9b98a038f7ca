"""Control requests of a ZooKeeper controller: LeaderAndIsr, UpdateMetadata, StopReplica.

Models the control requests of KafkaApis, ReplicaManager.becomeLeaderOrFollower and stopReplicas. A
request is checked in this order: is it meant for this incarnation of the broker (broker epoch),
does it come from the newest controller that this broker knows (controller epoch), and for each
partition, is its leader epoch newer than the replica's.

One request changes roles at a time (replicaStateChangeLock), also while it waits for ZooKeeper or,
to delete a log, for the disk. A partition has its role with the LeaderAndIsr, but KafkaApis refuses
Produce, Fetch and DeleteRecords of it until an UpdateMetadata has named it too. Left out: a log
that is created reads its topic's settings from ZooKeeper; here the LeaderAndIsr brings them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.broker.zk.metadata_cache import ZkMetadataCache, registration
from kafkasim.model.controller.zk.store.zk_data import topic_path
from kafkasim.model.effects import Request, Then
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
from kafkasim.model.records import TRANSACTION_STATE_TOPIC, TopicPartition
from kafkasim.model.values import value
from kafkasim.model.zookeeper.ops import GetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.broker.common.apis import Handler
    from kafkasim.model.broker.common.coordinators.registry import Coordinator, CoordinatorTopics
    from kafkasim.model.broker.incarnation import Incarnation
    from kafkasim.model.controller.common.image import PartitionRegistration
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.controller.zk.store.client import KafkaZkClient, Results
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.replication.roles import Failures

LANE = "requests"
NONE = Errors.NONE


class Respond(Protocol):
    """Answers a request."""

    def __call__(self, item: Request, message: Any) -> None:
        """Send the answer."""
        ...


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


@value
class RoleChange:
    """A coordinator gets a partition, or loses it; the leader epoch says since when."""

    coordinator: Coordinator
    tp: TopicPartition
    leader_epoch: int
    elected: bool


class RolesTaken:
    """A LeaderAndIsr whose replicas have their roles; the coordinators are told one by one."""

    __slots__ = ("answer", "changes", "item")

    def __init__(
        self, item: Request, answer: LeaderAndIsrResponse, changes: list[RoleChange]
    ) -> None:
        self.item = item
        self.answer = answer
        self.changes = deque(changes)  # which are still to be told


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
        zk: KafkaZkClient,
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
        self.zk = zk
        self.epochs = epochs
        self.cache = cache
        self.configs = configs
        self.replicas = replicas
        self.coordinators = coordinators
        self.partitions_deleted = partitions_deleted
        self.respond = respond
        self.roles_taken = roles_taken
        self.cache_updated = cache_updated
        self._handlers: dict[type, Handler] = {
            LeaderAndIsrRequest: self.on_leader_and_isr,
            UpdateMetadataRequest: self.on_update_metadata,
            StopReplicaRequest: self.on_stop_replica,
        }
        self.handlers: dict[type, Handler] = dict.fromkeys(self._handlers, self.on_request)
        self._locked = False  # a LeaderAndIsr waits for ZooKeeper, or a StopReplica for the disk
        self._waiting: deque[Request] = deque()  # for the lock

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request, once no other one holds the lock."""
        if self._locked:
            self._waiting.append(item)
        else:
            self._handlers[type(item.message)](item, now)

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
        if error is not NONE:
            refused = tuple([(state.tp, error) for state in request.partitions])
            self.respond(item, LeaderAndIsrResponse(error, refused))
            return
        for topic, entries, zxid in request.configs:
            self.configs.learn(topic, entries, zxid)
        results, changes = self._change_roles(request, now)
        self.replicas.hosted.compare_names([state.tp for state in request.partitions])
        answer = LeaderAndIsrResponse(NONE, tuple(results.items()))
        self._tell_coordinators(RolesTaken(item, answer, changes), now)

    def _change_roles(
        self, request: LeaderAndIsrRequest, now: int
    ) -> tuple[dict[TopicPartition, Errors], list[RoleChange]]:
        """Return each partition's error, and what the coordinators have to be told."""
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
            elif self._known_topic_id(tp) not in (None, state.topic_id):
                results[tp] = Errors.INCONSISTENT_TOPIC_ID
            elif not self.rules.accepts_leader_epoch(state, current):
                results[tp] = Errors.STALE_CONTROLLER_EPOCH
            elif self.incarnation.broker_id not in state.replicas:
                results[tp] = Errors.UNKNOWN_TOPIC_OR_PARTITION
            else:
                results[tp] = NONE
                states[tp] = (state.topic_id, registration(state))
                accepted.append(state)
        new = dict.fromkeys([state.tp for state in accepted if state.is_new])
        me = self.incarnation.broker_id
        led = [tp for tp in states if tp in hosted and hosted[tp].leader_id == me]
        dead = self._leaderless(accepted)
        failed = self.replicas.roles.become_leader_or_follower(states, now, new, dead)
        results.update(failed)
        taken = [state for state in accepted if state.tp not in dead]
        for state in taken:
            self.epochs.of_partition[state.tp] = state.controller_epoch
        return results, self._role_changes(taken, failed, led)

    def _known_topic_id(self, tp: TopicPartition) -> str | None:
        """Return the topic id of the partition, or of a log that has no role yet; None: no log.

        (Partition.topicId, which reads partition.metadata; Kafka 2.8 makes such a log the
        partition's all the same, and refuses the next request for it.)
        """
        partition = self.replicas.partitions.get(tp)
        if partition is not None:
            return partition.topic_id
        online = self.replicas.logs.online
        return next((each.on_disk[tp] for each in online if tp in each.on_disk), None)

    def _leaderless(self, accepted: list[ControlPartition]) -> dict[TopicPartition, None]:
        """Return the partitions that the last UpdateMetadata knows no live leader of.

        A replica of them keeps its role and goes on fetching (ReplicaManager.makeFollowers).
        """
        alive, me = self.cache.image.brokers, self.incarnation.broker_id
        dead = [each.tp for each in accepted if each.leader != me and each.leader not in alive]
        return dict.fromkeys(dead)

    def _role_changes(
        self, accepted: list[ControlPartition], failed: Failures, led: list[TopicPartition]
    ) -> list[RoleChange]:
        """Return what the coordinators have to be told, elections first (onLeadershipChange).

        Nothing of a partition that could not take its role, nor if this broker ``led`` it before:
        a new leader epoch alone loads nothing (makeLeader).
        """
        elected, resigned = [], []
        for state in accepted:
            coordinator = self.coordinators.coordinator_of(state.tp.topic)
            if coordinator is None or state.tp in failed:
                continue
            leads = state.leader == self.incarnation.broker_id
            change = RoleChange(coordinator, state.tp, state.leader_epoch, leads)
            if not leads:
                resigned.append(change)
            elif state.tp not in led:
                elected.append(change)
        return [*elected, *resigned]

    def _tell_coordinators(self, taken: RolesTaken, now: int) -> None:
        """Load and unload the coordinators' partitions, then answer the request."""
        while taken.changes:
            topic = taken.changes[0].tp.topic
            if topic == TRANSACTION_STATE_TOPIC and self.rules.coordinator_reads_zookeeper():
                self._locked = True
                done = partial(self._on_topic_read, taken)
                self.zk.ask((GetData(topic_path(topic)),), LANE, done)
                return
            self._tell(taken.changes.popleft(), now)
        self._end(taken, taken.answer, now)

    def _tell(self, change: RoleChange, now: int) -> None:
        tell = change.coordinator.on_elected if change.elected else change.coordinator.on_resigned
        tell(change.tp.partition, change.leader_epoch, now)

    def _end(self, taken: RolesTaken, answer: LeaderAndIsrResponse, now: int) -> None:
        self.roles_taken(now)
        self.respond(taken.item, answer)

    def _on_topic_read(self, taken: RolesTaken, results: Results, now: int) -> None:
        """Go on with a request that has waited for ZooKeeper, and then with those that wait for it.

        If the session has expired, the request fails, and the coordinators that have not been told
        are not told any more.
        """
        self._locked = False
        if results[0].error is ZkError.SESSIONEXPIRED:
            self._end(taken, LeaderAndIsrResponse(Errors.UNKNOWN_SERVER_ERROR, ()), now)
        else:
            self._tell(taken.changes.popleft(), now)
            self._tell_coordinators(taken, now)
        self._go_on(now)

    def _go_on(self, now: int) -> None:
        while self._waiting and not self._locked:
            self.on_request(self._waiting.popleft(), now)

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
            self.replicas.hosted.compare_names([state.tp for state in request.partitions])
            for state in deleted:
                coordinator = self.coordinators.coordinator_of(state.tp.topic)
                if coordinator is not None:
                    coordinator.on_resigned(state.tp.partition, None, now)
            if deleted:
                self.partitions_deleted(tuple([state.tp for state in deleted]), now)
            self.cache_updated(now)
        self.respond(item, UpdateMetadataResponse(error))

    # ----------------------------------------------------------------------------- StopReplica

    def on_stop_replica(self, item: Request, now: int) -> None:
        """Stop replicas, and delete the logs of those the request says (stopReplicas)."""
        request: StopReplicaRequest = item.message
        error = self._refusal(request)
        results: list[tuple[TopicPartition, Errors]] = []
        if error is NONE:
            for asked in request.partitions:
                results.append((asked.tp, self._stop(asked, now)))
            self.replicas.roles.checkpoint_deletions(now)
            self.replicas.hosted.compare_names([asked.tp for asked in request.partitions])
        self.respond(item, StopReplicaResponse(error, tuple(results)))
        self._locked = True
        self.out.append(Then(self._stopped))

    def _stopped(self, now: int) -> None:
        self._locked = False
        self._go_on(now)

    def _stop(self, asked: Any, now: int) -> Errors:
        partition = self.replicas.partitions.get(asked.tp)
        if asked.tp in self.replicas.hosted.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if partition is None:
            if asked.delete_partition:
                self.replicas.logs.delete_unhosted(asked.tp, now)
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
