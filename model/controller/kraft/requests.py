"""What the active controller answers (ControllerApis, and QuorumController's write events).

Each handler asks a manager for records and a response and hands both to
:meth:`~kafkasim.model.controller.kraft.controller.Controller.finish`, which parks the response behind the records.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.records import ProducerIdsRecord
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
)

if TYPE_CHECKING:
    from kafkasim.model.controller.kraft.controller import Controller

PRODUCER_ID_BLOCK = 1000


class ControllerApis:
    """``handlers``: request type to handler(item, message, now)."""

    def __init__(self, controller: Controller) -> None:
        self.controller = controller
        self.handlers: dict[type, Callable[[Request, Any, int], None]] = {
            BrokerHeartbeatRequest: self.on_heartbeat,
            AlterPartitionRequest: self.on_alter_partition,
            AssignReplicasToDirsRequest: self.on_assign_replicas_to_dirs,
            BrokerRegistrationRequest: self.on_registration,
            UnregisterBrokerRequest: self.on_unregister_broker,
            CreateTopicsRequest: self.on_create_topics,
            DeleteTopicsRequest: self.on_delete_topics,
            CreatePartitionsRequest: self.on_create_partitions,
            ElectLeadersRequest: self.on_elect_leaders,
            AlterPartitionReassignmentsRequest: self.on_alter_reassignments,
            ListPartitionReassignmentsRequest: self.on_list_reassignments,
            IncrementalAlterConfigsRequest: self.on_alter_configs,
            UpdateFeaturesRequest: self.on_update_features,
            AllocateProducerIdsRequest: self.on_allocate_producer_ids,
        }

    # Brokers.

    def on_registration(self, item: Request, request: BrokerRegistrationRequest, now: int) -> None:
        """Register an incarnation, or refuse a second one while the first is alive."""
        controller = self.controller
        managers, rules = controller.managers, controller.rules
        error = managers.cluster.may_register(request, now)
        if error != Errors.NONE:
            controller.finish(item, [], BrokerRegistrationResponse(error, -1), now)
            return
        previous = controller.image.brokers.get(request.broker_id)
        records: list[Any] = []
        if previous is not None and previous.incarnation_id != request.incarnation_id:
            if rules.on_reregistration(previous):
                unclean = rules.is_unclean_restart(previous, request)
                records += managers.replication.fence(previous.id, "registered", unclean)
        record = managers.cluster.registration(request)
        last_offset = controller.append([*records, record], now)
        if last_offset is None:
            controller.refuse(item)
            return
        epoch = controller.image.brokers[request.broker_id].epoch
        managers.heartbeats.register(request.broker_id, record.fenced, now)
        response = BrokerRegistrationResponse(Errors.NONE, epoch)
        controller.parked.append((last_offset, item, response))
        controller.arm_stale_check()

    def on_heartbeat(self, item: Request, request: BrokerHeartbeatRequest, now: int) -> None:
        """Keep a broker's session, and move it between fenced, active and shutting down."""
        controller = self.controller
        broker = controller.image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            refusal = BrokerHeartbeatResponse(Errors.STALE_BROKER_EPOCH, False, True, False)
            controller.finish(item, [], refusal, now)
            return
        heartbeats = controller.managers.heartbeats
        records, fenced, stop = controller.managers.replication.process_heartbeat(
            broker, request, heartbeats
        )
        offline = controller.managers.log_dirs.take_offline(broker, request.offline_log_dirs)
        caught_up = request.current_metadata_offset >= broker.epoch
        response = BrokerHeartbeatResponse(Errors.NONE, caught_up, fenced, stop)
        if not controller.finish(item, [*records, *offline], response, now):
            return
        heartbeats.touch(broker.id, fenced, request.current_metadata_offset, now)
        if records and not fenced and request.want_shut_down:
            heartbeats.start_shutdown(broker.id, controller.image.offset)
        if broker.fenced and not fenced:
            controller.arm_stale_check()

    def on_unregister_broker(
        self, item: Request, request: UnregisterBrokerRequest, now: int
    ) -> None:
        """Forget a broker; if it still runs, its heartbeats are stale from now on."""
        controller = self.controller
        managers = controller.managers
        error = managers.cluster.may_unregister(request.broker_id)
        if error != Errors.NONE:
            message = f"Broker ID {request.broker_id} is not currently registered"
            controller.finish(item, [], UnregisterBrokerResponse(error, message), now)
            return
        records = managers.replication.unregister(request.broker_id)
        if controller.finish(item, records, UnregisterBrokerResponse(Errors.NONE), now):
            managers.heartbeats.remove(request.broker_id)

    def on_alter_partition(self, item: Request, request: AlterPartitionRequest, now: int) -> None:
        """Change ISRs as their leaders ask."""
        managers = self.controller.managers
        error = managers.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            self.controller.finish(item, [], AlterPartitionResponse(error, ()), now)
            return
        records, response = managers.replication.alter_partition(request)
        self.controller.finish(item, records, response, now)

    def on_assign_replicas_to_dirs(
        self, item: Request, request: AssignReplicasToDirsRequest, now: int
    ) -> None:
        """Take note of the log directories of a broker's replicas."""
        managers = self.controller.managers
        error = managers.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            self.controller.finish(item, [], AssignReplicasToDirsResponse(error), now)
            return
        records, response = managers.log_dirs.assign(request)
        self.controller.finish(item, records, response, now)

    def on_allocate_producer_ids(
        self, item: Request, request: AllocateProducerIdsRequest, now: int
    ) -> None:
        """Give a broker the next block of producer ids."""
        controller = self.controller
        cluster = controller.managers.cluster
        error = cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            controller.finish(item, [], AllocateProducerIdsResponse(error, -1, 0), now)
            return
        start = controller.image.next_producer_id
        following = start + PRODUCER_ID_BLOCK
        record = ProducerIdsRecord(request.broker_id, request.broker_epoch, following)
        response = AllocateProducerIdsResponse(Errors.NONE, start, PRODUCER_ID_BLOCK)
        controller.finish(item, [record], response, now)

    # Operators.

    def on_create_topics(self, item: Request, request: CreateTopicsRequest, now: int) -> None:
        """Create topics."""
        records, response = self.controller.managers.topics.create_topics(request)
        self.controller.finish(item, records, response, now)

    def on_delete_topics(self, item: Request, request: DeleteTopicsRequest, now: int) -> None:
        """Delete topics."""
        records, response = self.controller.managers.topics.delete_topics(request)
        self.controller.finish(item, records, response, now)

    def on_create_partitions(
        self, item: Request, request: CreatePartitionsRequest, now: int
    ) -> None:
        """Add partitions to topics."""
        records, response = self.controller.managers.topics.create_partitions(request)
        self.controller.finish(item, records, response, now)

    def on_elect_leaders(self, item: Request, request: ElectLeadersRequest, now: int) -> None:
        """Hold preferred or unclean elections."""
        records, response = self.controller.managers.replication.elect_leaders(request)
        self.controller.finish(item, records, response, now)

    def on_alter_reassignments(
        self, item: Request, request: AlterPartitionReassignmentsRequest, now: int
    ) -> None:
        """Begin or cancel reassignments."""
        records, response = self.controller.managers.reassignments.alter(request)
        self.controller.finish(item, records, response, now)

    def on_list_reassignments(
        self, item: Request, request: ListPartitionReassignmentsRequest, now: int
    ) -> None:
        """List the reassignments in progress."""
        response = self.controller.managers.reassignments.ongoing(request)
        self.controller.finish(item, [], response, now)

    def on_update_features(self, item: Request, request: UpdateFeaturesRequest, now: int) -> None:
        """Finalize levels of features."""
        records, response = self.controller.managers.features.update(request)
        self.controller.finish(item, records, response, now)

    def on_alter_configs(
        self, item: Request, request: IncrementalAlterConfigsRequest, now: int
    ) -> None:
        """Change settings of topics and brokers."""
        records, response = self.controller.managers.configs.alter(request)
        self.controller.finish(item, records, response, now)
