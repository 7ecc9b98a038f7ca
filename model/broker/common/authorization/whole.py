"""The privileges that a request needs as a whole, in the order in which KafkaApis checks them.

A refused request is answered as its ``getErrorResponse`` does: with the error in the place that its
version has for one, or at each of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.broker.common.authorization.access import Access
from kafkasim.model.controller.common.responses import failed
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.responses import refusal
from kafkasim.model.group.coordinator import GROUP_REQUESTS
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddRaftVoterRequest,
    AlterClientQuotasRequest,
    AlterPartitionReassignmentsRequest,
    ConsumerGroupHeartbeatRequest,
    CreateAclsRequest,
    CreateAclsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeQuorumRequest,
    ElectLeadersRequest,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    ListPartitionReassignmentsRequest,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchRequest,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    RemoveRaftVoterRequest,
    SyncGroupRequest,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkasim.model.messages.clients.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    IDEMPOTENT_WRITE,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkasim.model.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NONE = Errors.NONE
GROUP_FAILED = Errors.GROUP_AUTHORIZATION_FAILED
CLUSTER_FAILED = Errors.CLUSTER_AUTHORIZATION_FAILED
TRANSACTIONAL_ID_FAILED = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED

Check = Callable[[Access, Any], Errors]


def _group(operation: str) -> Check:
    def check(access: Access, request: Any) -> Errors:
        return NONE if access.may(operation, GROUP, request.group_id) else GROUP_FAILED

    return check


def _cluster(operation: str) -> Check:
    def check(access: Access, _request: Any) -> Errors:
        return NONE if access.may_with_cluster(operation) else CLUSTER_FAILED

    return check


def _transaction(access: Access, request: Any) -> Errors:
    """(handleProduceRequest, handleEndTxnRequest, …)"""
    transactional_id = request.transactional_id
    if transactional_id is None or access.may(WRITE, TRANSACTIONAL_ID, transactional_id):
        return NONE
    return TRANSACTIONAL_ID_FAILED


def _producer_id(access: Access, request: InitProducerIdRequest) -> Errors:
    """(handleInitProducerIdRequest, KIP-679)"""
    if request.transactional_id is not None:
        return _transaction(access, request)
    if access.may_with_cluster(IDEMPOTENT_WRITE) or access.may_with_any(WRITE, TOPIC):
        return NONE
    return CLUSTER_FAILED


def _added_partitions(access: Access, request: AddPartitionsToTxnRequest) -> Errors:
    """Brokers verify for many transactions; a client asks for its own (parts.py)."""
    if all(not each.verify_only for each in request.transactions):
        return NONE
    return _cluster(CLUSTER_ACTION)(access, request)


def _coordinator(access: Access, request: FindCoordinatorRequest) -> Errors:
    if request.key_type == 0 and not access.may(DESCRIBE, GROUP, request.key):
        return GROUP_FAILED
    if request.key_type == 1 and not access.may(DESCRIBE, TRANSACTIONAL_ID, request.key):
        return TRANSACTIONAL_ID_FAILED
    if request.key_type == 2 and not access.may_with_cluster(CLUSTER_ACTION):
        return CLUSTER_FAILED
    return NONE


def _subscription(access: Access, request: ConsumerGroupHeartbeatRequest) -> Errors:
    """Refuse a subscription to topics that the member may not describe (KAFKA-18813)."""
    for topic in request.subscribed_topic_names or ():
        if not access.may(DESCRIBE, TOPIC, topic):
            return Errors.TOPIC_AUTHORIZATION_FAILED
    return NONE


def _markers(access: Access, _request: WriteTxnMarkersRequest) -> Errors:
    if access.may_with_cluster(ALTER) or access.may_with_cluster(CLUSTER_ACTION):
        return NONE
    return CLUSTER_FAILED


WHOLE: dict[type, tuple[Check, ...]] = {
    ProduceRequest: (_transaction,),
    InitProducerIdRequest: (_producer_id,),
    AddPartitionsToTxnRequest: (_added_partitions,),
    AddOffsetsToTxnRequest: (_transaction, _group(READ)),
    EndTxnRequest: (_transaction,),
    TxnOffsetCommitRequest: (_transaction, _group(READ)),
    WriteTxnMarkersRequest: (_markers,),
    FindCoordinatorRequest: (_coordinator,),
    JoinGroupRequest: (_group(READ),),
    SyncGroupRequest: (_group(READ),),
    HeartbeatRequest: (_group(READ),),
    LeaveGroupRequest: (_group(READ),),
    ConsumerGroupHeartbeatRequest: (_group(READ), _subscription),
    OffsetCommitRequest: (_group(READ),),
    OffsetFetchRequest: (_group(DESCRIBE),),
    OffsetDeleteRequest: (_group(DELETE),),
    CreateAclsRequest: (_cluster(ALTER),),
    DeleteAclsRequest: (_cluster(ALTER),),
    DescribeAclsRequest: (_cluster(DESCRIBE),),
    AlterClientQuotasRequest: (_cluster(ALTER_CONFIGS),),
    DescribeClientQuotasRequest: (_cluster(DESCRIBE_CONFIGS),),
    ElectLeadersRequest: (_cluster(ALTER),),
    AlterPartitionReassignmentsRequest: (_cluster(ALTER),),
    ListPartitionReassignmentsRequest: (_cluster(DESCRIBE),),
    UnregisterBrokerRequest: (_cluster(ALTER),),
    UpdateFeaturesRequest: (_cluster(ALTER),),
    AddRaftVoterRequest: (_cluster(ALTER),),
    RemoveRaftVoterRequest: (_cluster(ALTER),),
    DescribeQuorumRequest: (_cluster(DESCRIBE),),
}
"""What each request needs before any of it is looked at."""


def refused(request: Any, error: Errors) -> Any:
    """Return the answer to a request that is refused as a whole."""
    kind = type(request)
    if kind in _ERROR_FIRST:
        response, rest = _ERROR_FIRST[kind]
        return response(error, *rest)
    if kind in _OF_PARTS:
        return _OF_PARTS[kind](request, error)
    return refusal(request, error) if kind in GROUP_REQUESTS else failed(request, error)


def refused_produce(data: Any, error: Errors) -> ProducePartitionResponse:
    """Return the answer to one partition of a Produce request."""
    return ProducePartitionResponse(data.tp, error, -1, -1, -1)


_ERROR_FIRST: dict[type, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    InitProducerIdRequest: (InitProducerIdResponse, (NO_PRODUCER_ID, NO_PRODUCER_EPOCH)),
    AddPartitionsToTxnRequest: (AddPartitionsToTxnResponse, ((),)),
    AddOffsetsToTxnRequest: (AddOffsetsToTxnResponse, ()),
    EndTxnRequest: (EndTxnResponse, ()),
    FindCoordinatorRequest: (FindCoordinatorResponse, (-1, "")),
    DescribeAclsRequest: (DescribeAclsResponse, ((),)),
}
"""Answers that begin with the error of the request; what follows says nothing."""

_OF_PARTS: dict[type, Callable[[Any, Errors], Any]] = {
    ProduceRequest: lambda request, error: ProduceResponse(
        tuple([refused_produce(data, error) for data in request.partitions])
    ),
    TxnOffsetCommitRequest: lambda request, error: TxnOffsetCommitResponse(
        tuple([(offset[0], error) for offset in request.offsets])
    ),
    WriteTxnMarkersRequest: lambda request, error: WriteTxnMarkersResponse(
        tuple(
            [
                (marker.producer_id, tuple([(tp, error) for tp in marker.partitions]))
                for marker in request.markers
            ]
        )
    ),
    CreateAclsRequest: lambda request, error: CreateAclsResponse(
        NONE, ((error, ""),) * len(request.bindings)
    ),
    DeleteAclsRequest: lambda request, error: DeleteAclsResponse(
        NONE, ((error, "", ()),) * len(request.filters)
    ),
}
