"""The privileges that a request needs as a whole, in the order in which KafkaApis checks them.

A refused request is answered as its ``getErrorResponse`` does: with the error in the place that its
version has for one, or at each of its parts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.controller.common.authorization.access import Access
from kafkasim.model.controller.common.authorization.forwarded import refused_forwarded
from kafkasim.model.controller.common.authorization.privileges import (
    CLUSTER_FAILED,
    GROUP_FAILED,
    TOPIC_FAILED,
    Check,
    of_cluster,
    of_group,
)
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.responses import join_error, refusal
from kafkasim.model.group.coordinator import GROUP_REQUESTS
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    AddRaftVoterRequest,
    ConsumerGroupHeartbeatRequest,
    DescribeAclsRequest,
    DescribeAclsResponse,
    DescribeClientQuotasRequest,
    DescribeQuorumRequest,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
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
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkasim.model.messages.clients.acls import (
    ALTER,
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
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsRequest,
    ShareAcknowledgeRequest,
    ShareAcknowledgeResponse,
    ShareFetchRequest,
    ShareFetchResponse,
    ShareGroupDescribeRequest,
    ShareGroupHeartbeatRequest,
    ShareGroupHeartbeatResponse,
)
from kafkasim.model.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID

NONE = Errors.NONE
TRANSACTIONAL_ID_FAILED = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _transaction(access: Access, request: Any) -> Errors:
    """(handleProduceRequest, handleEndTxnRequest, …)"""
    transactional_id = request.transactional_id
    if transactional_id is None or access.may(WRITE, TRANSACTIONAL_ID, transactional_id):
        return NONE
    return TRANSACTIONAL_ID_FAILED


def _produced(access: Access, request: ProduceRequest) -> Errors:
    """Only transactional records need the transactional id (handleProduceRequest)."""
    if any(data.batch.transactional for data in request.partitions):
        return _transaction(access, request)
    return NONE


def _producer_id(access: Access, request: InitProducerIdRequest) -> Errors:
    """(handleInitProducerIdRequest, KIP-679)"""
    if request.transactional_id is not None:
        return _transaction(access, request)
    if access.may_with_cluster(IDEMPOTENT_WRITE, log_denied=False) or access.may_with_any(
        WRITE, TOPIC
    ):
        return NONE
    return CLUSTER_FAILED


def _added_partitions(access: Access, request: AddPartitionsToTxnRequest) -> Errors:
    """Brokers verify for many transactions; a client asks for its own (parts.py)."""
    if all(not each.verify_only for each in request.transactions):
        return NONE
    return of_cluster(CLUSTER_ACTION)(access, request)


def _coordinator(access: Access, request: FindCoordinatorRequest) -> Errors:
    if request.key_type == 0 and not access.may(DESCRIBE, GROUP, request.key):
        return GROUP_FAILED
    if request.key_type == 1 and not access.may(DESCRIBE, TRANSACTIONAL_ID, request.key):
        return TRANSACTIONAL_ID_FAILED
    if request.key_type == 2 and not access.may_with_cluster(CLUSTER_ACTION):
        return CLUSTER_FAILED
    return NONE


def _subscription(
    access: Access, request: ConsumerGroupHeartbeatRequest | ShareGroupHeartbeatRequest
) -> Errors:
    """Refuse a subscription to topics that the member may not describe (KAFKA-18813, 18817)."""
    for topic in request.subscribed_topic_names or ():
        if not access.may(DESCRIBE, TOPIC, topic):
            return TOPIC_FAILED
    return NONE


def _markers(access: Access, request: WriteTxnMarkersRequest) -> Errors:
    if access.may_with_cluster(ALTER, log_denied=False):
        return NONE
    return of_cluster(CLUSTER_ACTION)(access, request)


WHOLE: dict[type, tuple[Check, ...]] = {
    ProduceRequest: (_produced,),
    InitProducerIdRequest: (_producer_id,),
    AddPartitionsToTxnRequest: (_added_partitions,),
    AddOffsetsToTxnRequest: (_transaction, of_group(READ)),
    EndTxnRequest: (_transaction,),
    TxnOffsetCommitRequest: (_transaction, of_group(READ)),
    WriteTxnMarkersRequest: (_markers,),
    FindCoordinatorRequest: (_coordinator,),
    JoinGroupRequest: (of_group(READ),),
    SyncGroupRequest: (of_group(READ),),
    HeartbeatRequest: (of_group(READ),),
    LeaveGroupRequest: (of_group(READ),),
    ConsumerGroupHeartbeatRequest: (of_group(READ), _subscription),
    ShareGroupHeartbeatRequest: (of_group(READ), _subscription),
    ShareFetchRequest: (of_group(READ),),
    ShareAcknowledgeRequest: (of_group(READ),),
    AlterShareGroupOffsetsRequest: (of_group(READ),),
    DeleteShareGroupOffsetsRequest: (of_group(DELETE),),
    OffsetCommitRequest: (of_group(READ),),
    OffsetFetchRequest: (of_group(DESCRIBE),),
    OffsetDeleteRequest: (of_group(DELETE),),
    DescribeAclsRequest: (of_cluster(DESCRIBE),),
    DescribeClientQuotasRequest: (of_cluster(DESCRIBE_CONFIGS),),
    AddRaftVoterRequest: (of_cluster(ALTER),),
    RemoveRaftVoterRequest: (of_cluster(ALTER),),
    DescribeQuorumRequest: (of_cluster(DESCRIBE),),
}
"""What each request needs before any of it is looked at."""

OF_SHARE_GROUPS = (
    ShareGroupHeartbeatRequest,
    ShareGroupDescribeRequest,
    ShareFetchRequest,
    ShareAcknowledgeRequest,
    DescribeShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
)
"""What is refused as UNSUPPORTED_VERSION, whoever asks, where there are no share groups."""


def refused(request: Any, error: Errors) -> Any:
    """Return the answer to a request that is refused as a whole."""
    kind = type(request)
    if kind in _ERROR_FIRST:
        response, rest = _ERROR_FIRST[kind]
        return response(error, *rest)
    if kind in _OF_PARTS:
        return _OF_PARTS[kind](request, error)
    if kind in GROUP_REQUESTS:
        return refusal(request, error)
    return refused_forwarded(request, error)


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
    ShareGroupHeartbeatRequest: (ShareGroupHeartbeatResponse, ()),
    ShareFetchRequest: (ShareFetchResponse, ()),
    ShareAcknowledgeRequest: (ShareAcknowledgeResponse, ()),
    AlterShareGroupOffsetsRequest: (AlterShareGroupOffsetsResponse, ()),
    DeleteShareGroupOffsetsRequest: (DeleteShareGroupOffsetsResponse, ()),
}
"""Answers that begin with the error of the request; what follows says nothing."""

_OF_PARTS: dict[type, Callable[[Any, Errors], Any]] = {
    JoinGroupRequest: lambda _request, error: join_error(error, ""),
    ProduceRequest: lambda request, error: ProduceResponse(
        tuple([refused_produce(data, error) for data in request.partitions])
    ),
    TxnOffsetCommitRequest: lambda request, error: TxnOffsetCommitResponse(
        tuple([(offset[0], error) for offset in request.offsets])
    ),
    WriteTxnMarkersRequest: lambda request, error: WriteTxnMarkersResponse(
        tuple(
            {
                marker.producer_id: tuple([(tp, error) for tp in marker.partitions])
                for marker in request.markers
            }.items()
        )
    ),
}
