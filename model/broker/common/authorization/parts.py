"""The privileges that the parts of a request need: those parts are refused, the others served.

The order is KafkaApis': a part that its sender may not have is refused before anybody asks whether
it exists.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.broker.common.authorization.whole import refused_produce
from kafkasim.model.controller.common.authorization.access import Access
from kafkasim.model.controller.common.authorization.forwarded import MESSAGES
from kafkasim.model.controller.common.authorization.privileges import (
    GROUP_FAILED,
    TOPIC_FAILED,
    Check,
    Parts,
    of_config,
    of_group,
    of_topic,
)
from kafkasim.model.controller.common.topics import name_problem
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    DeleteGroupsRequest,
    DeleteGroupsResponse,
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
    DescribeConfigsRequest,
    DescribeConfigsResult,
    DescribedConsumerGroup,
    DescribedGroup,
    DescribedTransaction,
    DescribeGroupsRequest,
    DescribeProducersPartition,
    DescribeProducersRequest,
    DescribeTransactionsRequest,
    EpochEndOffset,
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
from kafkasim.model.messages.clients.acls import (
    CLUSTER_ACTION,
    DELETE,
    DESCRIBE,
    DESCRIBE_CONFIGS,
    GROUP,
    READ,
    TOPIC,
    TRANSACTIONAL_ID,
    WRITE,
)
from kafkasim.model.messages.share import (
    AlterShareGroupOffsetsRequest,
    DeleteShareGroupOffsetsRequest,
    DescribedShareGroup,
    DescribedShareGroupOffsets,
    DescribeShareGroupOffsetsRequest,
    ShareGroupDescribeRequest,
)
from kafkasim.model.records import TopicPartition


def _of_epochs(access: Access, part: Any) -> Errors:
    """Followers ask, and since KIP-320 consumers (handleOffsetForLeaderEpochRequest)."""
    if access.may_with_cluster(CLUSTER_ACTION, False) or access.may(DESCRIBE, TOPIC, part.tp.topic):
        return Errors.NONE
    return TOPIC_FAILED


def _of_group(operation: str) -> Check:
    def error(access: Access, part: Any) -> Errors:
        allowed = access.may(operation, GROUP, part)
        return Errors.NONE if allowed else GROUP_FAILED

    return error


def _of_producers(access: Access, part: TopicPartition) -> Errors:
    """Let a name that no topic may have be told from one that is refused (checkValidTopic)."""
    if name_problem(part.topic) is not None or access.may(READ, TOPIC, part.topic):
        return Errors.NONE
    return TOPIC_FAILED


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
        _of_producers,
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
    ShareGroupDescribeRequest: Parts(
        "group_ids",
        "groups",
        _of_group(DESCRIBE),
        lambda part, error: DescribedShareGroup(error, part),
    ),
    DescribeShareGroupOffsetsRequest: Parts(
        "groups",
        "groups",
        of_group(DESCRIBE),
        lambda part, error: DescribedShareGroupOffsets(part.group_id, error),
    ),
    AlterShareGroupOffsetsRequest: Parts(
        "topics",
        "responses",
        of_topic(READ, lambda part: str(part[0])),
        lambda part, error: (part[0], "", tuple([(number, error) for number, _ in part[1]])),
    ),
    DeleteShareGroupOffsetsRequest: Parts(
        "topics",
        "responses",
        of_topic(READ, str),
        lambda part, error: (part, "", error),
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
    DescribeConfigsRequest: Parts(
        "resources",
        "results",
        of_config(DESCRIBE_CONFIGS),
        lambda part, error: DescribeConfigsResult(
            part.resource_type, part.resource_name, error, MESSAGES[error]
        ),
    ),
}
"""The requests whose parts are allowed or refused one by one."""
