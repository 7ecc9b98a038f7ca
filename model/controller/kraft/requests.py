"""The managers of an active controller, and which of them serves which request.

Each handler here is one of QuorumController's write events: it asks the managers for records and a
response, and changes nothing itself.
:class:`~kafkasim.model.controller.kraft.active.ActiveController` appends the records, replays them,
and sends the response when they are committed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    ELR_FEATURE,
    BrokerRegistrationChangeRecord,
    ProducerIdsRecord,
)
from kafkasim.model.controller.common.topics import Charge, unlimited
from kafkasim.model.controller.kraft.managers.acls import AclControlManager
from kafkasim.model.controller.kraft.managers.cluster import ClusterControlManager
from kafkasim.model.controller.kraft.managers.configs import (
    ConfigurationControlManager,
    alter_client_quotas,
)
from kafkasim.model.controller.kraft.managers.features import FeatureControlManager
from kafkasim.model.controller.kraft.managers.heartbeats import BrokerHeartbeatManager
from kafkasim.model.controller.kraft.managers.log_dirs import LogDirControlManager
from kafkasim.model.controller.kraft.managers.reassignments import ReassignmentControlManager
from kafkasim.model.controller.kraft.managers.replication import ReplicationControlManager
from kafkasim.model.controller.kraft.managers.topics import TopicControlManager
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    CreateAclsRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    DeleteAclsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
)
from kafkasim.model.values import value

PRODUCER_ID_BLOCK = 1000


@value
class ControllerResult:
    """The records and the response of an event (ControllerResult).

    ``replayed()`` runs once the records are replayed, and returns the response in place of
    ``response``.
    """

    records: list[Any]
    response: Any
    replayed: Callable[[], Any] | None = None


class Managers:
    """The parts of an active controller. They start from its image; a resignation drops them."""

    __slots__ = (
        "acls",
        "cluster",
        "configs",
        "features",
        "heartbeats",
        "image",
        "log_dirs",
        "reassignments",
        "replication",
        "rules",
        "topics",
    )

    def __init__(
        self,
        image: MetadataImage,
        config: BrokerConfig,
        rules: ControllerRules,
        rng: random.Random,
        now: int,
    ) -> None:
        self.image = image
        self.rules = rules
        self.heartbeats = BrokerHeartbeatManager(
            config.broker_session_timeout_ms * 1000, image, rules, now
        )
        self.cluster = ClusterControlManager(image, self.heartbeats)
        self.replication = ReplicationControlManager(
            image, config, rules, self.cluster.default_directory
        )
        self.log_dirs = LogDirControlManager(image, self.replication)
        self.topics = TopicControlManager(
            image, self.cluster, config, rng, rules.has_internal_segment_bytes()
        )
        self.reassignments = ReassignmentControlManager(image, self.replication)
        self.configs = ConfigurationControlManager(image, config, rules)
        self.features = FeatureControlManager(image, rules.supported_features())
        self.acls = AclControlManager(image, config, rules, rng)

    # Brokers.

    def on_registration(self, request: BrokerRegistrationRequest, now: int) -> ControllerResult:
        """Register an incarnation, unless the session of another one is valid."""
        cluster, image = self.cluster, self.image
        error = cluster.registration_error(request, now)
        if error != Errors.NONE:
            return ControllerResult([], BrokerRegistrationResponse(error, -1))
        previous = image.brokers.get(request.broker_id)
        records: list[Any] = []
        if previous is None or previous.incarnation_id != request.incarnation_id:
            if self.rules.fences_previous_incarnation(previous):
                unclean = self.rules.is_unclean_restart(previous, request)
                records += self.replication.leave(request.broker_id, "registered", unclean)
        record = cluster.registration(request)

        def replayed() -> BrokerRegistrationResponse:
            epoch = image.brokers[request.broker_id].epoch
            self.heartbeats.register(request.broker_id, epoch, record.fenced, now)
            return BrokerRegistrationResponse(Errors.NONE, epoch)

        return ControllerResult([*records, record], None, replayed)

    def on_heartbeat(self, request: BrokerHeartbeatRequest, now: int) -> ControllerResult:
        """Extend a broker's session, and move it between fenced, active and shutting down."""
        image, heartbeats = self.image, self.heartbeats
        heartbeats.track(request.broker_id, request.broker_epoch, now)
        broker = image.brokers.get(request.broker_id)
        if broker is None or broker.epoch != request.broker_epoch:
            refusal = BrokerHeartbeatResponse(Errors.STALE_BROKER_EPOCH, False, True, False)
            return ControllerResult([], refusal)
        records, fenced, stop = self.replication.process_heartbeat(broker, request, heartbeats)
        offline = self.log_dirs.take_offline(broker, request.offline_log_dirs)
        caught_up = request.current_metadata_offset >= image.registration_offsets[broker.id]
        response = BrokerHeartbeatResponse(Errors.NONE, caught_up, fenced, stop)

        def replayed() -> BrokerHeartbeatResponse:
            offset = request.current_metadata_offset
            if any(type(each) is BrokerRegistrationChangeRecord for each in [*records, *offline]):
                offset = -1
            heartbeats.touch(broker.id, broker.epoch, fenced, offset, now)
            if records and not fenced and request.want_shut_down:
                heartbeats.start_shutdown(broker.id, image.offset)
            return response

        return ControllerResult([*records, *offline], None, replayed)

    def on_unregister_broker(self, request: UnregisterBrokerRequest, now: int) -> ControllerResult:
        """Forget a broker; if it still runs, its heartbeats are stale from now on."""
        error = self.cluster.unregistration_error(request.broker_id)
        if error != Errors.NONE:
            message = f"Broker ID {request.broker_id} is not currently registered"
            return ControllerResult([], UnregisterBrokerResponse(error, message))

        def replayed() -> UnregisterBrokerResponse:
            self.heartbeats.remove(request.broker_id)
            return UnregisterBrokerResponse(Errors.NONE)

        return ControllerResult(self.replication.unregister(request.broker_id), None, replayed)

    def on_alter_partition(self, request: AlterPartitionRequest, now: int) -> ControllerResult:
        """Change ISRs as their leaders ask."""
        error = self.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            return ControllerResult([], AlterPartitionResponse(error, ()))
        return ControllerResult(*self.replication.alter_partition(request))

    def on_assign_replicas_to_dirs(
        self, request: AssignReplicasToDirsRequest, now: int
    ) -> ControllerResult:
        """Note the log directories that hold a broker's replicas."""
        error = self.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            return ControllerResult([], AssignReplicasToDirsResponse(error))
        return ControllerResult(*self.log_dirs.assign(request))

    def on_allocate_producer_ids(
        self, request: AllocateProducerIdsRequest, now: int
    ) -> ControllerResult:
        """Give a broker the next block of producer ids."""
        error = self.cluster.check_broker_epoch(request.broker_id, request.broker_epoch)
        if error != Errors.NONE:
            return ControllerResult([], AllocateProducerIdsResponse(error, -1, 0))
        start = self.image.next_producer_id
        following = start + PRODUCER_ID_BLOCK
        record = ProducerIdsRecord(request.broker_id, request.broker_epoch, following)
        response = AllocateProducerIdsResponse(Errors.NONE, start, PRODUCER_ID_BLOCK)
        return ControllerResult([record], response)

    # Operators.

    def on_create_topics(
        self, request: CreateTopicsRequest, now: int, charge: Charge = unlimited
    ) -> ControllerResult:
        """Create topics."""
        return _validated(request, *self.topics.create_topics(request, charge))

    def on_delete_topics(
        self, request: DeleteTopicsRequest, now: int, charge: Charge = unlimited
    ) -> ControllerResult:
        """Delete topics."""
        return ControllerResult(*self.topics.delete_topics(request, charge))

    def on_create_partitions(
        self, request: CreatePartitionsRequest, now: int, charge: Charge = unlimited
    ) -> ControllerResult:
        """Add partitions to topics."""
        return _validated(request, *self.topics.create_partitions(request, charge))

    def on_elect_leaders(self, request: ElectLeadersRequest, now: int) -> ControllerResult:
        """Hold preferred or unclean elections."""
        return ControllerResult(*self.replication.elect_leaders(request))

    def on_alter_reassignments(
        self, request: AlterPartitionReassignmentsRequest, now: int
    ) -> ControllerResult:
        """Begin or cancel reassignments."""
        return ControllerResult(*self.reassignments.alter(request))

    def on_list_reassignments(
        self, request: ListPartitionReassignmentsRequest, now: int
    ) -> ControllerResult:
        """List the reassignments in progress."""
        return ControllerResult([], self.reassignments.ongoing(request))

    def on_alter_configs(
        self, request: IncrementalAlterConfigsRequest, now: int
    ) -> ControllerResult:
        """Change settings of topics and brokers."""
        return _validated(request, *self.configs.alter(request))

    def on_alter_client_quotas(
        self, request: AlterClientQuotasRequest, now: int
    ) -> ControllerResult:
        """Set quotas of clients."""
        return ControllerResult(*alter_client_quotas(request, self.image))

    def on_create_acls(self, request: CreateAclsRequest, now: int) -> ControllerResult:
        """Add entries to the access control lists."""
        return ControllerResult(*self.acls.create(request))

    def on_delete_acls(self, request: DeleteAclsRequest, now: int) -> ControllerResult:
        """Remove entries from the access control lists."""
        return ControllerResult(*self.acls.delete(request))

    def on_update_features(self, request: UpdateFeaturesRequest, now: int) -> ControllerResult:
        """Finalize levels of features."""
        records, response = self.features.update(request)
        turned_on = dict(request.updates).get(ELR_FEATURE, 0) > 0
        if records and turned_on and not self.image.elr_enabled:
            records += self.configs.elr_safety_records()
        return _validated(request, records, response)


def _validated(request: Any, records: list[Any], response: Any) -> ControllerResult:
    """Return the result of a request without its records if it only asks for a validation."""
    return ControllerResult([] if request.validate_only else records, response)


HANDLERS: dict[type, Callable[[Managers, Any, int], ControllerResult]] = {
    BrokerHeartbeatRequest: Managers.on_heartbeat,
    AlterPartitionRequest: Managers.on_alter_partition,
    AssignReplicasToDirsRequest: Managers.on_assign_replicas_to_dirs,
    BrokerRegistrationRequest: Managers.on_registration,
    UnregisterBrokerRequest: Managers.on_unregister_broker,
    CreateTopicsRequest: Managers.on_create_topics,
    DeleteTopicsRequest: Managers.on_delete_topics,
    CreatePartitionsRequest: Managers.on_create_partitions,
    ElectLeadersRequest: Managers.on_elect_leaders,
    AlterPartitionReassignmentsRequest: Managers.on_alter_reassignments,
    ListPartitionReassignmentsRequest: Managers.on_list_reassignments,
    IncrementalAlterConfigsRequest: Managers.on_alter_configs,
    UpdateFeaturesRequest: Managers.on_update_features,
    AlterClientQuotasRequest: Managers.on_alter_client_quotas,
    CreateAclsRequest: Managers.on_create_acls,
    DeleteAclsRequest: Managers.on_delete_acls,
    AllocateProducerIdsRequest: Managers.on_allocate_producer_ids,
}
"""What the active controller serves; the Raft client serves all other requests."""

CHARGED: dict[type, Callable[[Managers, Any, int, Charge], ControllerResult]] = {
    CreateTopicsRequest: Managers.on_create_topics,
    DeleteTopicsRequest: Managers.on_delete_topics,
    CreatePartitionsRequest: Managers.on_create_partitions,
}
"""What takes partitions from a client's controller_mutation_rate."""
