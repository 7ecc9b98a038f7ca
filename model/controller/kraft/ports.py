"""What the controller needs of the quorum, and what it answers while it is not active."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    AllocateProducerIdsRequest,
    AllocateProducerIdsResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    AlterPartitionRequest,
    AlterPartitionResponse,
    AssignReplicasToDirsRequest,
    AssignReplicasToDirsResponse,
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
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

_FORWARDED: dict[type, type] = {
    AlterPartitionReassignmentsRequest: AlterPartitionReassignmentsResponse,
    CreatePartitionsRequest: CreatePartitionsResponse,
    DeleteTopicsRequest: DeleteTopicsResponse,
    ElectLeadersRequest: ElectLeadersResponse,
    IncrementalAlterConfigsRequest: IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest: ListPartitionReassignmentsResponse,
}
"""Requests whose response is an error and a list."""

_OF_THE_QUORUM: dict[type, type] = {
    AddRaftVoterRequest: RaftVoterResponse,
    DescribeQuorumRequest: DescribeQuorumResponse,
    RemoveRaftVoterRequest: RaftVoterResponse,
}
"""What the Raft client serves."""

_ERROR_ALONE: dict[type, type] = {
    **_OF_THE_QUORUM,
    AssignReplicasToDirsRequest: AssignReplicasToDirsResponse,
    UnregisterBrokerRequest: UnregisterBrokerResponse,
    UpdateFeaturesRequest: UpdateFeaturesResponse,
}
"""Requests whose response can be an error alone."""

OPERATOR_REQUESTS: tuple[type, ...] = (*_FORWARDED, *_ERROR_ALONE)
"""What operators ask any broker, which forwards it."""


class Raft(Protocol):
    """What a controller needs of :class:`kafkasim.model.raft.client.RaftClient`."""

    is_leader: bool
    log_end_offset: int

    def start(self, now: int) -> None: ...
    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None: ...
    def create_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None: ...
    def shutdown(self, now: int, done: Callable[[int], None]) -> None: ...
    def on_request(self, item: Request, now: int) -> None: ...


def not_controller(request: Any) -> Any:
    """Return the answer of a controller that is not active, in the message's own error field."""
    return failed(request, Errors.NOT_CONTROLLER)


def failed(request: Any, error: Errors) -> Any:
    """Return the answer that a request as a whole failed."""
    response = _FORWARDED.get(type(request))
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
