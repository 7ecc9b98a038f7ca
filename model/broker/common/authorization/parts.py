"""The privileges that the parts of a request need: those parts are refused, the others served.

The order is KafkaApis': a part that its sender may not have is refused before anybody asks whether
it exists.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.broker.common.authorization.access import Access
from kafkasim.model.broker.common.authorization.whole import refused_produce
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterableConfig,
    ConsumerGroupDescribeRequest,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DeleteTopicsRequest,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedTransaction,
    DescribeGroupsRequest,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EpochEndOffset,
    IncrementalAlterConfigsRequest,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataTopic,
    OffsetCommitRequest,
    OffsetDeleteRequest,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetsForLeaderEpochRequest,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
)
from kafkasim.model.messages.clients import admin
from kafkasim.model.messages.clients.acls import (
    ALTER,
    ALTER_CONFIGS,
    CLUSTER_ACTION,
    CREATE,
    DELETE,
    DESCRIBE,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkasim.model.values import value

TOPIC_FAILED = Errors.TOPIC_AUTHORIZATION_FAILED


@value
class Parts:
    """How one request is divided: its field with the parts, and the answer's with their results.

    ``error(access, part)`` is NONE for a part that is allowed. ``refused(part, error)`` is its
    result. ``nothing`` is the answer that the refused parts join if no other part is left; None:
    the request is served without any.
    """

    parts: str
    results: str
    error: Callable[[Access, Any], Errors]
    refused: Callable[[Any, Errors], Any]
    nothing: Any = None


def of_topic(operation: str, topic: Callable[[Any], str]) -> Callable[[Access, Any], Errors]:
    """Return a check of what is done with the topic of a part."""

    def error(access: Access, part: Any) -> Errors:
        return Errors.NONE if access.may(operation, TOPIC, topic(part)) else TOPIC_FAILED

    return error


def _of_epochs(access: Access, part: Any) -> Errors:
    """Followers ask, and since KIP-320 consumers (handleOffsetForLeaderEpochRequest)."""
    if access.may_with_cluster(CLUSTER_ACTION) or access.may(DESCRIBE, TOPIC, part.tp.topic):
        return Errors.NONE
    return TOPIC_FAILED


def _of_new_topic(access: Access, part: Any) -> Errors:
    if access.may_with_cluster(CREATE) or access.may(CREATE, TOPIC, part.topic):
        return Errors.NONE
    return TOPIC_FAILED


def _of_config(access: Access, part: AlterableConfig) -> Errors:
    if part.resource_type == admin.TOPIC:
        return of_topic(ALTER_CONFIGS, lambda each: str(each.resource_name))(access, part)
    if part.resource_type == admin.GROUP:
        allowed = access.may(ALTER_CONFIGS, GROUP, part.resource_name)
        return Errors.NONE if allowed else Errors.GROUP_AUTHORIZATION_FAILED
    allowed = access.may_with_cluster(ALTER_CONFIGS)
    return Errors.NONE if allowed else Errors.CLUSTER_AUTHORIZATION_FAILED


def _of_group(operation: str) -> Callable[[Access, Any], Errors]:
    def error(access: Access, part: Any) -> Errors:
        allowed = access.may(operation, GROUP, part)
        return Errors.NONE if allowed else Errors.GROUP_AUTHORIZATION_FAILED

    return error


def _of_transactional_id(access: Access, part: str) -> Errors:
    allowed = access.may(DESCRIBE, TRANSACTIONAL_ID, part)
    return Errors.NONE if allowed else Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED


def _pair(part: Any, error: Errors) -> Any:
    return (part[0], error)


PARTS: dict[type, Parts] = {
    ProduceRequest: Parts(
        "partitions",
        "partitions",
        of_topic(WRITE, lambda part: str(part.tp.topic)),
        refused_produce,
        ProduceResponse(()),
    ),
    ListOffsetsRequest: Parts(
        "partitions",
        "partitions",
        of_topic(DESCRIBE, lambda part: str(part.tp.topic)),
        lambda part, error: ListOffsetsPartitionResponse(part.tp, error, -1, -1, -1),
    ),
    OffsetsForLeaderEpochRequest: Parts(
        "partitions",
        "partitions",
        _of_epochs,
        lambda part, error: EpochEndOffset(part.tp, error, -1, -1),
    ),
    DeleteRecordsRequest: Parts(
        "partitions",
        "partitions",
        of_topic(DELETE, lambda part: str(part[0].topic)),
        lambda part, error: DeleteRecordsPartitionResult(part[0], error, -1),
        DeleteRecordsResponse(()),
    ),
    DescribeProducersRequest: Parts(
        "partitions",
        "partitions",
        of_topic(READ, lambda part: str(part.topic)),
        lambda part, error: DescribeProducersPartition(part, error, ()),
    ),
    OffsetCommitRequest: Parts(
        "offsets", "results", of_topic(READ, lambda part: str(part[0].topic)), _pair
    ),
    TxnOffsetCommitRequest: Parts(
        "offsets", "results", of_topic(READ, lambda part: str(part[0].topic)), _pair
    ),
    OffsetDeleteRequest: Parts(
        "partitions",
        "results",
        of_topic(READ, lambda part: str(part.topic)),
        lambda part, error: (part, error),
    ),
    OffsetFetchRequest: Parts(
        "partitions",
        "partitions",
        of_topic(DESCRIBE, lambda part: str(part.topic)),
        lambda part, error: OffsetFetchPartitionResponse(part, -1, -1, "", error),
    ),
    MetadataRequest: Parts(
        "topics",
        "topics",
        of_topic(DESCRIBE, str),
        lambda part, error: MetadataTopic(part, "", error, ()),
    ),
    DescribeGroupsRequest: Parts(
        "group_ids",
        "groups",
        _of_group(DESCRIBE),
        lambda part, error: DescribedGroup(error, part),
    ),
    ConsumerGroupDescribeRequest: Parts(
        "group_ids",
        "groups",
        _of_group(DESCRIBE),
        lambda part, error: DescribedConsumerGroup(error, part),
    ),
    DeleteGroupsRequest: Parts(
        "group_ids",
        "results",
        _of_group(DELETE),
        lambda part, error: (part, error),
        DeleteGroupsResponse(()),
    ),
    DescribeTransactionsRequest: Parts(
        "transactional_ids",
        "transactions",
        _of_transactional_id,
        lambda part, error: DescribedTransaction(error, part, "", 0, 0, 0, 0, ()),
    ),
    CreateTopicsRequest: Parts(
        "topics",
        "results",
        _of_new_topic,
        lambda part, error: (part.topic, error, "Authorization failed."),
        CreateTopicsResponse(()),
    ),
    DeleteTopicsRequest: Parts(
        "topics",
        "results",
        of_topic(DELETE, lambda part: str(part[0])),
        lambda part, error: (*part, error, error.name),
    ),
    CreatePartitionsRequest: Parts(
        "topics",
        "results",
        of_topic(ALTER, lambda part: str(part.topic)),
        lambda part, error: (part.topic, error, ""),
    ),
    IncrementalAlterConfigsRequest: Parts(
        "resources",
        "results",
        _of_config,
        lambda part, error: (part.resource_type, part.resource_name, error, ""),
    ),
}
"""The requests whose parts are allowed or refused one by one."""

Merge = Callable[[Any], Any]


def divide(access: Access, request: Any) -> tuple[Any, Merge | None]:
    """Return what is left to serve of a request, and how its answer becomes that to all of it.

    None is left if the refused parts are all that there is to say. A request all of whose parts are
    allowed comes back as it is, without a merge. Each part is checked once, in order.
    """
    of = PARTS[type(request)]
    asked = getattr(request, of.parts)
    if asked is None:  # all: what may not be described is left out of the answer
        return request, _only_allowed(access, of)
    kept: list[Any] = []
    refused: list[Any] = []
    for part in asked:
        error = of.error(access, part)
        if error is Errors.NONE:
            kept.append(part)
        else:
            refused.append(of.refused(part, error))
    if not refused:
        return request, None

    def merge(answer: Any) -> Any:
        answer = of.nothing if answer is None else answer
        return replace(answer, **{of.results: (*getattr(answer, of.results), *refused)})

    if not kept and of.nothing is not None:
        return None, merge
    return replace(request, **{of.parts: tuple(kept)}), merge


def _only_allowed(access: Access, of: Parts) -> Merge:
    def merge(answer: Any) -> Any:
        found = [
            each
            for each in getattr(answer, of.results)
            if of.error(access, each.topic if isinstance(each, MetadataTopic) else each.tp)
            is Errors.NONE
        ]
        return replace(answer, **{of.results: tuple(found)})

    return merge
