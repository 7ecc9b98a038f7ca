"""The response to a request that fails as a whole, for every request of a controller.

Both kinds of controller use them, and brokers do for the requests that they forward.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.controller.common.records import KRAFT_VERSION
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    ApiVersionsResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    EnvelopeRequest,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    RaftVoterResponse,
    RemoveRaftVoterRequest,
    UnregisterBrokerRequest,
    UnregisterBrokerResponse,
    UpdateFeaturesRequest,
    UpdateFeaturesResponse,
)

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.effects import Peer

_FORWARDED: dict[type, type] = {
    AlterClientQuotasRequest: AlterClientQuotasResponse,
    AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsResponse,
    CreateAclsRequest: CreateAclsResponse,
    CreatePartitionsRequest: CreatePartitionsResponse,
    DeleteAclsRequest: DeleteAclsResponse,
    DeleteTopicsRequest: DeleteTopicsResponse,
    ElectLeadersRequest: ElectLeadersResponse,
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest: ListPartitionReassignmentsResponse,
}
"""Forwarded requests whose response is an error and a list of results."""

_LISTS: dict[type, type] = {
    **_FORWARDED,
    DescribeClientQuotasRequest: DescribeClientQuotasResponse,  # a broker answers it itself
}

_OF_THE_QUORUM: dict[type, type] = {
    AddRaftVoterRequest: RaftVoterResponse,
    DescribeQuorumRequest: DescribeQuorumResponse,
    RemoveRaftVoterRequest: RaftVoterResponse,
}
"""Forwarded requests that the Raft client serves."""

_ERROR_ALONE: dict[type, type] = {
    **_OF_THE_QUORUM,
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse,
    UnregisterBrokerRequest: UnregisterBrokerResponse,
    UpdateFeaturesRequest: UpdateFeaturesResponse,
}
"""Requests whose response may be an error alone."""

OPERATOR_REQUESTS: tuple[type, ...] = (*_FORWARDED, *_ERROR_ALONE)
"""The requests of operators that a KRaft broker forwards, but for CreateTopics."""


def envelope(request: Any, peer: Peer) -> Any:
    """Return the request as a broker forwards it (ForwardingManager.buildEnvelopeRequest).

    Those that the Raft client serves go as they are; who sent them makes no difference there.
    """
    if type(request) in _OF_THE_QUORUM:
        return request
    return EnvelopeRequest(request, peer.principal, peer.client_id, peer.host)


def without_authorizer(request: CreateAclsRequest | DeleteAclsRequest) -> Any:
    """Return the response to a change of entries without authorizer.class.name (AclApis)."""
    disabled = Errors.SECURITY_DISABLED, "No Authorizer is configured."
    if isinstance(request, CreateAclsRequest):
        return CreateAclsResponse(Errors.NONE, (disabled,) * len(request.bindings))
    return DeleteAclsResponse(Errors.NONE, ((*disabled, ()),) * len(request.filters))


def api_versions(image: MetadataImage, kraft_version: int) -> ApiVersionsResponse:
    """Return the response to ApiVersions: the finalized features (KIP-584).

    The quorum's own log has kraft.version (KRaftMetadataCache.features); 0 is not named.
    """
    levels = image.finalized_features()
    if kraft_version > 0:
        levels[KRAFT_VERSION] = kraft_version
    features = tuple(sorted(levels.items()))
    return ApiVersionsResponse(Errors.NONE, features, image.offset if features else -1)


def not_controller(request: Any) -> Any:
    """Return the response of a controller that is not active.

    ControlledShutdown gets STALE_CONTROLLER_EPOCH (KafkaController.doControlledShutdown).
    """
    if isinstance(request, ControlledShutdownRequest):
        return ControlledShutdownResponse(Errors.STALE_CONTROLLER_EPOCH)
    return failed(request, Errors.NOT_CONTROLLER)


def failed(request: Any, error: Errors) -> Any:
    """Return the response that says that the whole request failed with ``error``."""
    response = _LISTS.get(type(request))
    if response is not None:
        return response(error, ())
    response = _ERROR_ALONE.get(type(request))
    if response is not None:
        return response(error)
    if isinstance(request, BrokerHeartbeatRequest):
        return BrokerHeartbeatResponse(error, False, True, False)
    if isinstance(request, BrokerRegistrationRequest):
        return BrokerRegistrationResponse(error, -1)
    if isinstance(request, AlterPartitionRequest):
        return AlterPartitionResponse(error, ())
    if isinstance(request, ControlledShutdownRequest):
        return ControlledShutdownResponse(error)
    if isinstance(request, AllocateProducerIdsRequest):
        return AllocateProducerIdsResponse(error, -1, 0)
    assert isinstance(request, CreateTopicsRequest), request
    return CreateTopicsResponse(
        tuple(
            [
                (topic.topic, error, "The active controller is elsewhere.")
                for topic in request.topics
            ]
        )
    )
