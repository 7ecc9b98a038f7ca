"""The privileges of what a KRaft broker forwards: the controller asks for them (ControllerApis).

In ZooKeeper mode the broker that serves such a request asks for the same, but for DeleteTopics.
Left out: requests about the quorum, which go to the controller without an envelope, so the broker
asks for their privileges; and those of servers, which need CLUSTER_ACTION on the controller.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.controller.common.authorization.access import Access
from kafkasim.model.controller.common.authorization.privileges import (
    CLUSTER_FAILED,
    GROUP_FAILED,
    TOPIC_FAILED,
    Check,
    Parts,
    of_cluster,
    of_config,
    of_topic,
)
from kafkasim.model.controller.common.responses import failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    CreatableTopic,
    CreateAclsRequest,
    CreateAclsResponse,
    CreatePartitionsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteAclsRequest,
    DeleteAclsResponse,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
    UnregisterBrokerRequest,
    UpdateFeaturesRequest,
)
from kafkasim.model.messages.clients.acls import (
    ALTER,
    ALTER_CONFIGS,
    CREATE,
    DELETE,
    DESCRIBE,
    TOPIC,
)

NONE = Errors.NONE

MESSAGES = {
    TOPIC_FAILED: "Topic authorization failed.",
    GROUP_FAILED: "Group authorization failed.",
    CLUSTER_FAILED: "Cluster authorization failed.",
    Errors.UNKNOWN_SERVER_ERROR: "",
}
"""What an answer says beside an error (Errors.message)."""


def _of_new_topic(access: Access, part: CreatableTopic) -> Errors:
    if access.may_with_cluster(CREATE, log_denied=False) or access.may(CREATE, TOPIC, part.topic):
        return NONE
    return TOPIC_FAILED


def _of_deleted_topic(access: Access, part: tuple[str, str]) -> Errors:
    """Say that a topic does not exist only to whoever may describe it (deleteTopics)."""
    name = part[0] or access.topic_name(part[1])
    if name is None or access.may_with_cluster(DELETE, log_denied=False):
        return NONE
    if not access.may(DESCRIBE, TOPIC, name):
        return TOPIC_FAILED
    deletable = access.may(DELETE, TOPIC, name) or not access.knows_topic(name)
    return NONE if deletable else TOPIC_FAILED


FORWARDED_WHOLE: dict[type, tuple[Check, ...]] = {
    CreateAclsRequest: (of_cluster(ALTER),),
    DeleteAclsRequest: (of_cluster(ALTER),),
    AlterClientQuotasRequest: (of_cluster(ALTER_CONFIGS),),
    ElectLeadersRequest: (of_cluster(ALTER),),
    AlterPartitionReassignmentsRequest: (of_cluster(ALTER),),
    ListPartitionReassignmentsRequest: (of_cluster(DESCRIBE),),
    UnregisterBrokerRequest: (of_cluster(ALTER),),
    UpdateFeaturesRequest: (of_cluster(ALTER),),
}
"""What a forwarded request needs before any of it is looked at."""

FORWARDED_PARTS: dict[type, Parts] = {
    CreateTopicsRequest: Parts(
        "topics",
        "results",
        _of_new_topic,
        lambda part, error: (part.topic, error, "Authorization failed."),
        CreateTopicsResponse(()),
        lambda part: part.topic,
    ),
    DeleteTopicsRequest: Parts(
        "topics",
        "results",
        _of_deleted_topic,
        lambda part, error: (*part, error, MESSAGES[error]),
        name=lambda part: part,
    ),
    CreatePartitionsRequest: Parts(
        "topics",
        "results",
        of_topic(ALTER, lambda part: str(part.topic)),
        lambda part, error: (part.topic, error, ""),
        name=lambda part: part.topic,
    ),
    IncrementalAlterConfigsRequest: Parts(
        "resources",
        "results",
        of_config(ALTER_CONFIGS),
        lambda part, error: (part.resource_type, part.resource_name, error, MESSAGES[error]),
        name=lambda part: (part.resource_type, part.resource_name),
    ),
}
"""The forwarded requests whose parts are allowed or refused one by one."""

DELETED_TOPICS = replace(
    FORWARDED_PARTS[DeleteTopicsRequest], error=of_topic(DELETE, lambda part: str(part[0]))
)
"""DeleteTopics in ZooKeeper mode (KafkaApis.handleDeleteTopicsRequest): each needs DELETE."""

OF_CONTROLLER = (CreateTopicsRequest, CreatePartitionsRequest, DeleteTopicsRequest)
"""What a broker that is not the controller refuses in ZooKeeper mode, whoever asks."""

_OF_PARTS: dict[type, Callable[[Any, Errors], Any]] = {
    CreateAclsRequest: lambda request, error: CreateAclsResponse(
        NONE, ((error, MESSAGES[error]),) * len(request.bindings)
    ),
    DeleteAclsRequest: lambda request, error: DeleteAclsResponse(
        NONE, ((error, MESSAGES[error], ()),) * len(request.filters)
    ),
    AlterClientQuotasRequest: lambda request, error: AlterClientQuotasResponse(
        NONE, tuple([(each.entity, error, MESSAGES[error]) for each in request.entries])
    ),
    ElectLeadersRequest: lambda request, error: ElectLeadersResponse(
        error, tuple([(tp, error) for tp in request.partitions or ()])
    ),
    AlterPartitionReassignmentsRequest: lambda request, error: AlterPartitionReassignmentsResponse(
        error, tuple([(each.tp, error, MESSAGES[error]) for each in request.partitions])
    ),
    ListPartitionReassignmentsRequest: lambda request, error: ListPartitionReassignmentsResponse(
        error,
        tuple([OngoingPartitionReassignment(tp, (), (), ()) for tp in request.partitions or ()]),
    ),
}


def refused_forwarded(request: Any, error: Errors) -> Any:
    """Return the answer to a forwarded request that is refused as a whole (getErrorResponse)."""
    answer = _OF_PARTS.get(type(request), failed)
    return answer(request, error)
