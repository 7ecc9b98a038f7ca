"""The model's messages as Kafka's on the wire, and Kafka's answers as the model's.

Of a response only what both sides have is carried over; what is not here (throttle times, rack and
host names, authorised operations) no test compares.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from tests.fidelity import (
    acls_on_wire,
    control_on_wire,
    quorum_on_wire,
    quotas_on_wire,
    raft_on_wire,
    servers_on_wire,
    share_on_wire,
    transactions_on_wire,
)
from tests.fidelity.batches import decoded, encoded

Body = dict[str, Any]

SHARE = 2
"""The type of the key of a share partition, in FindCoordinator."""

VERSIONS = {
    "Produce": 11,  # topics by name
    "Fetch": 17,
    "ListOffsets": 9,
    "OffsetForLeaderEpoch": 4,
    "Metadata": 12,
    "FindCoordinator": 3,
    "JoinGroup": 9,
    "SyncGroup": 5,
    "Heartbeat": 4,
    "LeaveGroup": 5,
    "OffsetCommit": 9,
    "OffsetFetch": 8,
    "InitProducerId": 5,
    "CreateTopics": 7,
    "DeleteTopics": 6,
    "CreatePartitions": 3,
    "IncrementalAlterConfigs": 1,
    "AlterPartitionReassignments": 0,
    "ListPartitionReassignments": 0,
    "ElectLeaders": 2,
    "DeleteRecords": 2,
    "UpdateFeatures": 1,
    "UnregisterBroker": 0,
    "ConsumerGroupHeartbeat": 1,
    "ConsumerGroupDescribe": 0,
    **acls_on_wire.VERSIONS,
    **transactions_on_wire.VERSIONS,
    **quotas_on_wire.VERSIONS,
    **quorum_on_wire.VERSIONS,
    **raft_on_wire.VERSIONS,
    **servers_on_wire.VERSIONS,
    **control_on_wire.VERSIONS,
    **share_on_wire.VERSIONS,
    "DescribeGroups": 6,
    "ListGroups": 5,
    "DeleteGroups": 2,
    "OffsetDelete": 0,
}
"""The version that is spoken, per API."""

WITHOUT_QUOTA = {"CreateTopics": 5, "DeleteTopics": 4, "CreatePartitions": 2}
"""The last version whose clients do not know controller_mutation_rate, per API."""

OLDER = {"DescribeGroups": 5}
"""Those that are spoken to 3.9.1."""


def to_wire(message: m.Message) -> tuple[str, Body]:
    """Return the API's name and the body of a request.

    Raises:
        KeyError: this type of request has no wire form here.
    """
    api, build = _REQUESTS[type(message)]
    body = build(message)
    return api, body


def version_of(message: m.Message, api: str) -> int:
    """Return the version in which a request is spoken."""
    if isinstance(message, m.FindCoordinatorRequest) and message.key_type == SHARE:
        return 6  # the first one with share groups
    if isinstance(message, m.FetchRequest) and _names_topics(message):
        return 12  # the last one that names topics
    if not getattr(message, "knows_quota", True):
        return WITHOUT_QUOTA[api]
    own = transactions_on_wire.version(message)
    return VERSIONS[api] if own is None else own


def from_wire(message: m.Message, body: Body, ids: dict[str, str]) -> Any:
    """Return Kafka's answer to a request as the model's response."""
    if isinstance(message, m.FetchRequest):
        return _fetched(message, body, ids)
    return _RESPONSES[type(message)](message, body)


# ------------------------------------------------------------------------------------- requests


def _by_topic(name: str, rows: list[tuple[TopicPartition, Body]], key: str = "Partitions") -> Any:
    topics: dict[str, list[Body]] = {}
    for tp, body in rows:
        topics.setdefault(tp.topic, []).append(body)
    return [{name: topic, key: found} for topic, found in topics.items()]


def _produce(request: m.ProduceRequest) -> Body:
    rows = [
        (p.tp, {"Index": p.tp.partition, "Records": encoded(p.batch)}) for p in request.partitions
    ]
    return {
        "TransactionalId": request.transactional_id,
        "Acks": request.acks,
        "TimeoutMs": request.timeout_ms,
        "TopicData": _by_topic("Name", rows, "PartitionData"),
    }


def _names_topics(request: m.FetchRequest) -> bool:
    """Return whether a fetch names topics and has no ids of theirs."""
    ids = [each.topic_id for each in request.partitions]
    return "" in ids + [topic_id for topic_id, _ in request.forgotten]


def _fetch(request: m.FetchRequest) -> Body:
    topics: dict[tuple[str, str], list[Body]] = {}
    for p in request.partitions:
        topics.setdefault((p.topic_id, p.tp.topic), []).append(
            {
                "Partition": p.tp.partition,
                "CurrentLeaderEpoch": p.current_leader_epoch,
                "FetchOffset": p.fetch_offset,
                "LastFetchedEpoch": p.last_fetched_epoch,
                "LogStartOffset": p.log_start_offset,
                "PartitionMaxBytes": p.partition_max_bytes,
            }
        )
    gone: dict[tuple[str, str], list[int]] = {}
    for topic_id, tp in request.forgotten:
        gone.setdefault((topic_id, tp.topic), []).append(tp.partition)
    body = {
        "MaxWaitMs": request.max_wait_ms,
        "MinBytes": request.min_bytes,
        "MaxBytes": request.max_bytes,
        "IsolationLevel": request.isolation_level,
        "SessionId": request.session_id,
        "SessionEpoch": request.session_epoch,
        "RackId": request.rack_id,
        "Topics": _identified(topics),
        "ForgottenTopicsData": _identified(gone),
    }
    if request.replica_id != -1:
        body["ReplicaState"] = {
            "ReplicaId": request.replica_id,
            "ReplicaEpoch": request.replica_epoch,
        }
    return body


def _identified(topics: dict[tuple[str, str], Any]) -> list[Body]:
    """Return a row for each topic, of which a version of Fetch writes the id or the name."""
    return [
        {"TopicId": topic_id, "Topic": name, "Partitions": found}
        for (topic_id, name), found in topics.items()
    ]


def _list_offsets(request: m.ListOffsetsRequest) -> Body:
    rows = [
        (
            p.tp,
            {
                "PartitionIndex": p.tp.partition,
                "CurrentLeaderEpoch": p.current_leader_epoch,
                "Timestamp": p.timestamp,
            },
        )
        for p in request.partitions
    ]
    return {
        "ReplicaId": request.replica_id,
        "IsolationLevel": request.isolation_level,
        "Topics": _by_topic("Name", rows),
    }


def _leader_epochs(request: m.OffsetsForLeaderEpochRequest) -> Body:
    rows = [
        (
            p.tp,
            {
                "Partition": p.tp.partition,
                "CurrentLeaderEpoch": p.current_leader_epoch,
                "LeaderEpoch": p.leader_epoch,
            },
        )
        for p in request.partitions
    ]
    return {"ReplicaId": request.replica_id, "Topics": _by_topic("Topic", rows)}


def _metadata(request: m.MetadataRequest) -> Body:
    topics = request.topics
    return {
        "Topics": None if topics is None else [{"Name": name} for name in topics],
        "AllowAutoTopicCreation": request.allow_auto_topic_creation,
    }


def _join_group(request: m.JoinGroupRequest) -> Body:
    return {
        "GroupId": request.group_id,
        "SessionTimeoutMs": request.session_timeout_ms,
        "RebalanceTimeoutMs": request.rebalance_timeout_ms,
        "MemberId": request.member_id,
        "GroupInstanceId": request.group_instance_id,
        "ProtocolType": request.protocol_type,
        "Protocols": [
            {"Name": name, "Metadata": _subscription(subscription)}
            for name, subscription in request.protocols
        ],
        "Reason": request.reason,
    }


def _sync_group(request: m.SyncGroupRequest) -> Body:
    return {
        "GroupId": request.group_id,
        "GenerationId": request.generation_id,
        "MemberId": request.member_id,
        "GroupInstanceId": request.group_instance_id,
        "ProtocolType": request.protocol_type,
        "ProtocolName": request.protocol_name,
        "Assignments": [
            {"MemberId": member, "Assignment": _assignment(partitions)}
            for member, partitions in request.assignments
        ],
    }


def _consumer_group_heartbeat(request: m.ConsumerGroupHeartbeatRequest) -> Body:
    owned = request.topic_partitions
    topics = request.subscribed_topic_names
    return {
        "GroupId": request.group_id,
        "MemberId": request.member_id,
        "MemberEpoch": request.member_epoch,
        "InstanceId": request.instance_id,
        "RackId": request.rack_id,
        "RebalanceTimeoutMs": request.rebalance_timeout_ms,
        "SubscribedTopicNames": None if topics is None else list(topics),
        "SubscribedTopicRegex": request.subscribed_topic_regex,
        "ServerAssignor": request.server_assignor,
        "TopicPartitions": None
        if owned is None
        else [{"TopicId": topic, "Partitions": list(some)} for topic, some in owned],
    }


def _heartbeat(request: m.HeartbeatRequest) -> Body:
    return {
        "GroupId": request.group_id,
        "GenerationId": request.generation_id,
        "MemberId": request.member_id,
        "GroupInstanceId": request.group_instance_id,
    }


def _offset_delete(request: m.OffsetDeleteRequest) -> Body:
    topics: dict[str, list[Body]] = {}
    for tp in request.partitions:
        topics.setdefault(tp.topic, []).append({"PartitionIndex": tp.partition})
    rows = [{"Name": name, "Partitions": partitions} for name, partitions in topics.items()]
    return {"GroupId": request.group_id, "Topics": rows}


def _leave_group(request: m.LeaveGroupRequest) -> Body:
    members = [
        {"MemberId": member, "GroupInstanceId": instance, "Reason": reason}
        for member, instance, reason in request.members
    ]
    return {"GroupId": request.group_id, "Members": members}


def _offset_commit(request: m.OffsetCommitRequest) -> Body:
    rows = [
        (
            tp,
            {
                "PartitionIndex": tp.partition,
                "CommittedOffset": offset,
                "CommittedLeaderEpoch": epoch,
                "CommittedMetadata": metadata,
            },
        )
        for tp, offset, epoch, metadata in request.offsets
    ]
    return {
        "GroupId": request.group_id,
        "GenerationIdOrMemberEpoch": request.generation_id,
        "MemberId": request.member_id,
        "GroupInstanceId": request.group_instance_id,
        "Topics": _by_topic("Name", rows),
    }


def _offset_fetch(request: m.OffsetFetchRequest) -> Body:
    topics = None
    if request.partitions is not None:
        named: dict[str, list[int]] = {}
        for tp in request.partitions:
            named.setdefault(tp.topic, []).append(tp.partition)
        topics = [{"Name": n, "PartitionIndexes": found} for n, found in named.items()]
    groups = [{"GroupId": request.group_id, "Topics": topics}]
    return {"Groups": groups, "RequireStable": request.require_stable}


def _create_topics(request: m.CreateTopicsRequest) -> Body:
    topics = [
        {
            "Name": topic.topic,
            "NumPartitions": topic.num_partitions,
            "ReplicationFactor": topic.replication_factor,
            "Assignments": [
                {"PartitionIndex": i, "BrokerIds": list(replicas)}
                for i, replicas in enumerate(topic.assignments)
            ],
            "Configs": [{"Name": key, "Value": value} for key, value in topic.configs],
        }
        for topic in request.topics
    ]
    return {
        "Topics": topics,
        "TimeoutMs": request.timeout_ms,
        "ValidateOnly": request.validate_only,
    }


def _delete_topics(request: m.DeleteTopicsRequest) -> Body:
    topics = [{"Name": name or None, "TopicId": given} for name, given in request.topics]
    names = [name for name, _ in request.topics]  # before version 6
    return {"Topics": topics, "TopicNames": names, "TimeoutMs": request.timeout_ms}


def _create_partitions(request: m.CreatePartitionsRequest) -> Body:
    topics = [
        {
            "Name": topic.topic,
            "Count": topic.count,
            "Assignments": [{"BrokerIds": list(replicas)} for replicas in topic.assignments]
            or None,
        }
        for topic in request.topics
    ]
    return {"Topics": topics, "TimeoutMs": request.timeout_ms, "ValidateOnly": False}


_RESOURCE_TYPES = {"topic": 2, "broker": 4, "group": 32}
_RESOURCE_NAMES = {code: name for name, code in _RESOURCE_TYPES.items()}


def _alter_configs(request: m.IncrementalAlterConfigsRequest) -> Body:
    resources = [
        {
            "ResourceType": _RESOURCE_TYPES[resource.resource_type],
            "ResourceName": resource.resource_name,
            "Configs": [
                {"Name": key, "ConfigOperation": int(value is None), "Value": value}
                for key, value in resource.configs
            ],
        }
        for resource in request.resources
    ]
    return {"Resources": resources, "ValidateOnly": False}


def _alter_reassignments(request: m.AlterPartitionReassignmentsRequest) -> Body:
    rows = [
        (
            p.tp,
            {
                "PartitionIndex": p.tp.partition,
                "Replicas": None if p.replicas is None else list(p.replicas),
            },
        )
        for p in request.partitions
    ]
    return {"TimeoutMs": request.timeout_ms, "Topics": _by_topic("Name", rows)}


def _elect_leaders(request: m.ElectLeadersRequest) -> Body:
    topics = None
    if request.partitions is not None:
        named: dict[str, list[int]] = {}
        for tp in request.partitions:
            named.setdefault(tp.topic, []).append(tp.partition)
        topics = [{"Topic": topic, "Partitions": found} for topic, found in named.items()]
    return {
        "ElectionType": request.election_type,
        "TopicPartitions": topics,
        "TimeoutMs": request.timeout_ms,
    }


def _list_reassignments(request: m.ListPartitionReassignmentsRequest) -> Body:
    topics = None
    if request.partitions is not None:
        named: dict[str, list[int]] = {}
        for tp in request.partitions:
            named.setdefault(tp.topic, []).append(tp.partition)
        topics = [{"Name": topic, "PartitionIndexes": found} for topic, found in named.items()]
    return {"TimeoutMs": request.timeout_ms, "Topics": topics}


def _delete_records(request: m.DeleteRecordsRequest) -> Body:
    rows = [(tp, {"PartitionIndex": tp.partition, "Offset": at}) for tp, at in request.partitions]
    return {"Topics": _by_topic("Name", rows), "TimeoutMs": request.timeout_ms}


_REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    **acls_on_wire.REQUESTS,
    **transactions_on_wire.REQUESTS,
    **quotas_on_wire.REQUESTS,
    **quorum_on_wire.REQUESTS,
    **raft_on_wire.REQUESTS,
    **servers_on_wire.REQUESTS,
    **control_on_wire.REQUESTS,
    **share_on_wire.REQUESTS,
    m.ProduceRequest: ("Produce", _produce),
    m.FetchRequest: ("Fetch", _fetch),
    m.ListOffsetsRequest: ("ListOffsets", _list_offsets),
    m.OffsetsForLeaderEpochRequest: ("OffsetForLeaderEpoch", _leader_epochs),
    m.MetadataRequest: ("Metadata", _metadata),
    m.FindCoordinatorRequest: (
        "FindCoordinator",
        lambda r: (
            {"CoordinatorKeys": [r.key], "KeyType": r.key_type}
            if r.key_type == SHARE
            else {"Key": r.key, "KeyType": r.key_type}
        ),
    ),
    m.JoinGroupRequest: ("JoinGroup", _join_group),
    m.SyncGroupRequest: ("SyncGroup", _sync_group),
    m.HeartbeatRequest: ("Heartbeat", _heartbeat),
    m.DescribeGroupsRequest: (
        "DescribeGroups",
        lambda r: {"Groups": list(r.group_ids), "IncludeAuthorizedOperations": False},
    ),
    m.ListGroupsRequest: (
        "ListGroups",
        lambda r: {"StatesFilter": list(r.states), "TypesFilter": list(r.types)},
    ),
    m.DeleteGroupsRequest: ("DeleteGroups", lambda r: {"GroupsNames": list(r.group_ids)}),
    m.OffsetDeleteRequest: ("OffsetDelete", _offset_delete),
    m.LeaveGroupRequest: ("LeaveGroup", _leave_group),
    m.OffsetCommitRequest: ("OffsetCommit", _offset_commit),
    m.OffsetFetchRequest: ("OffsetFetch", _offset_fetch),
    m.ConsumerGroupHeartbeatRequest: ("ConsumerGroupHeartbeat", _consumer_group_heartbeat),
    m.ConsumerGroupDescribeRequest: (
        "ConsumerGroupDescribe",
        lambda r: {"GroupIds": list(r.group_ids), "IncludeAuthorizedOperations": False},
    ),
    m.InitProducerIdRequest: (
        "InitProducerId",
        lambda r: {
            "TransactionalId": r.transactional_id,
            "TransactionTimeoutMs": r.transaction_timeout_ms,
            "ProducerId": r.producer_id,
            "ProducerEpoch": r.producer_epoch,
        },
    ),
    m.CreateTopicsRequest: ("CreateTopics", _create_topics),
    m.DeleteTopicsRequest: ("DeleteTopics", _delete_topics),
    m.CreatePartitionsRequest: ("CreatePartitions", _create_partitions),
    m.IncrementalAlterConfigsRequest: ("IncrementalAlterConfigs", _alter_configs),
    m.AlterPartitionReassignmentsRequest: ("AlterPartitionReassignments", _alter_reassignments),
    m.ElectLeadersRequest: ("ElectLeaders", _elect_leaders),
    m.DeleteRecordsRequest: ("DeleteRecords", _delete_records),
    m.UnregisterBrokerRequest: ("UnregisterBroker", lambda r: {"BrokerId": r.broker_id}),
    m.ListPartitionReassignmentsRequest: ("ListPartitionReassignments", _list_reassignments),
    m.UpdateFeaturesRequest: (
        "UpdateFeatures",
        lambda r: {
            "FeatureUpdates": [
                {"Feature": feature, "MaxVersionLevel": level, "UpgradeType": r.upgrade_type}
                for feature, level in r.updates
            ],
            "TimeoutMs": 10_000,
        },
    ),
}


def _subscription(told: m.Subscription) -> bytes:
    """ConsumerProtocolSubscription: version 1 if partitions are owned, else 0."""
    owned = told.owned_partitions
    data = struct.pack(">hi", 1 if owned else 0, len(told.topics))
    for topic in told.topics:
        data += struct.pack(">h", len(topic)) + topic.encode()
    return data + struct.pack(">i", -1) + (_topic_partitions(owned) if owned else b"")


def _assignment(partitions: tuple[TopicPartition, ...]) -> bytes:
    """ConsumerProtocolAssignment, version 0."""
    return struct.pack(">h", 0) + _topic_partitions(partitions) + struct.pack(">i", -1)


def _topic_partitions(partitions: tuple[TopicPartition, ...]) -> bytes:
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    data = struct.pack(">i", len(topics))
    for topic, numbers in topics.items():
        data += struct.pack(">h", len(topic)) + topic.encode() + struct.pack(">i", len(numbers))
        data += b"".join(struct.pack(">i", number) for number in numbers)
    return data


def _assigned(data: bytes) -> tuple[TopicPartition, ...]:
    if not data:
        return ()
    (count,), at, found = struct.unpack_from(">i", data, 2), 6, []
    for _ in range(count):
        (size,) = struct.unpack_from(">h", data, at)
        topic = data[at + 2 : at + 2 + size].decode()
        at += 2 + size
        (partitions,) = struct.unpack_from(">i", data, at)
        numbers = struct.unpack_from(f">{partitions}i", data, at + 4)
        at += 4 + 4 * partitions
        found += [TopicPartition(topic, number) for number in numbers]
    return tuple(found)


# ------------------------------------------------------------------------------------ responses


def _error(body: Body, name: str = "ErrorCode") -> Errors:
    return Errors(body[name])


def _rows(topics: list[Body], name: str = "Name", index: str = "PartitionIndex") -> Any:
    for topic in topics:
        for body in topic["Partitions"]:
            yield TopicPartition(topic[name], body[index]), body


def _produced(_: Any, body: Body) -> m.ProduceResponse:
    return m.ProduceResponse(
        tuple(
            m.ProducePartitionResponse(
                TopicPartition(topic["Name"], p["Index"]), _error(p), p["BaseOffset"],
                p["LogAppendTimeMs"], p["LogStartOffset"],
            )
            for topic in body["Responses"]
            for p in topic["PartitionResponses"]
        )
    )  # fmt: skip


def _fetched(request: m.FetchRequest, body: Body, ids: dict[str, str]) -> m.FetchResponse:
    names = {topic_id: name for name, topic_id in ids.items()}
    names |= {p.topic_id: p.tp.topic for p in request.partitions}
    partitions = []
    for topic in body["Responses"]:
        name = topic["Topic"] if "Topic" in topic else names.get(topic["TopicId"], "?")
        for p in topic["Partitions"]:
            diverging = p["DivergingEpoch"]
            partitions.append(
                m.FetchPartitionResponse(
                    TopicPartition(name, p["PartitionIndex"]),
                    _error(p), p["HighWatermark"], p["LastStableOffset"], p["LogStartOffset"],
                    decoded(p["Records"] or b""),
                    (diverging["Epoch"], diverging["EndOffset"])
                    if diverging and diverging["EndOffset"] >= 0 else None,
                    preferred_read_replica=p["PreferredReadReplica"],
                )
            )  # fmt: skip
    return m.FetchResponse(_error(body), tuple(partitions), body["SessionId"])


def _listed(_: Any, body: Body) -> m.ListOffsetsResponse:
    return m.ListOffsetsResponse(
        tuple(
            m.ListOffsetsPartitionResponse(
                tp, _error(p), p["Timestamp"], p["Offset"], p["LeaderEpoch"]
            )
            for tp, p in _rows(body["Topics"])
        )
    )


def _epochs_ended(_: Any, body: Body) -> m.OffsetsForLeaderEpochResponse:
    return m.OffsetsForLeaderEpochResponse(
        tuple(
            m.EpochEndOffset(tp, _error(p), p["LeaderEpoch"], p["EndOffset"])
            for tp, p in _rows(body["Topics"], "Topic", "Partition")
        )
    )


def _described(_: Any, body: Body) -> m.MetadataResponse:
    topics = tuple(
        m.MetadataTopic(
            topic["Name"], topic["TopicId"], _error(topic),
            tuple(
                m.MetadataPartition(
                    p["PartitionIndex"], _error(p), p["LeaderId"], p["LeaderEpoch"],
                    tuple(p["ReplicaNodes"]), tuple(p["IsrNodes"]), tuple(p["OfflineReplicas"]),
                )
                for p in sorted(topic["Partitions"], key=lambda p: p["PartitionIndex"])
            ),
        )
        for topic in body["Topics"]
    )  # fmt: skip
    brokers = tuple(
        m.MetadataBroker(b["NodeId"], f"broker-{b['NodeId']}", b["Rack"]) for b in body["Brokers"]
    )
    return m.MetadataResponse(brokers, body["ControllerId"], topics)


def _group_described(body: Body) -> m.DescribedGroup:
    members = tuple(
        m.DescribedGroupMember(
            each["MemberId"], each["GroupInstanceId"], each["ClientId"],
            m.Subscription(()) if each["MemberMetadata"] else None,
            _assigned(each["MemberAssignment"]),
        )
        for each in body["Members"]
    )  # fmt: skip
    return m.DescribedGroup(
        _error(body), body["GroupId"], body["GroupState"], body["ProtocolType"],
        body["ProtocolData"], members,
    )  # fmt: skip


def _coordinator_found(request: m.FindCoordinatorRequest, body: Body) -> m.FindCoordinatorResponse:
    if request.key_type == SHARE:
        (body,) = body["Coordinators"]
    return m.FindCoordinatorResponse(_error(body), body["NodeId"], f"broker-{body['NodeId']}")


def _joined(_: Any, body: Body) -> m.JoinGroupResponse:
    members = tuple(
        m.JoinGroupMember(each["MemberId"], each["GroupInstanceId"], m.Subscription(()))
        for each in body["Members"]
    )
    return m.JoinGroupResponse(
        _error(body), body["GenerationId"], body["ProtocolType"], body["ProtocolName"],
        body["Leader"], body["SkipAssignment"], body["MemberId"], members,
    )  # fmt: skip


def _topic_ids(assignment: Body) -> m.TopicIdPartitions:
    rows = assignment["TopicPartitions"]
    return tuple(sorted((each["TopicId"], tuple(sorted(each["Partitions"]))) for each in rows))


def _heard(_: Any, body: Body) -> m.ConsumerGroupHeartbeatResponse:
    assignment = body["Assignment"]
    return m.ConsumerGroupHeartbeatResponse(
        _error(body), body["MemberId"], body["MemberEpoch"], body["HeartbeatIntervalMs"],
        None if assignment is None else _topic_ids(assignment),
    )  # fmt: skip


def _consumer_groups_described(_: Any, body: Body) -> m.ConsumerGroupDescribeResponse:
    return m.ConsumerGroupDescribeResponse(
        tuple(
            m.DescribedConsumerGroup(
                _error(group), group["GroupId"], group["GroupState"], group["GroupEpoch"],
                group["AssignmentEpoch"], group["AssignorName"],
                tuple(
                    m.DescribedConsumerGroupMember(
                        each["MemberId"], each["InstanceId"], each["RackId"], each["MemberEpoch"],
                        each["ClientId"], tuple(sorted(each["SubscribedTopicNames"])),
                        each["SubscribedTopicRegex"] or "", _topic_ids(each["Assignment"]),
                        _topic_ids(each["TargetAssignment"]),
                    )
                    for each in group["Members"]
                ),
            )
            for group in body["Groups"]
        )
    )  # fmt: skip


def _offsets_fetched(_: Any, body: Body) -> m.OffsetFetchResponse:
    group = body["Groups"][0]
    return m.OffsetFetchResponse(
        _error(group),
        tuple(
            m.OffsetFetchPartitionResponse(
                tp, p["CommittedOffset"], p["CommittedLeaderEpoch"], p["Metadata"] or "", _error(p)
            )
            for tp, p in _rows(group["Topics"])
        ),
    )


def _topic_results(body: Body, name: str, key: str = "Name") -> tuple[tuple[str, Errors, str], ...]:
    return tuple((each[key], _error(each), each["ErrorMessage"] or "") for each in body[name])


_RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    **quotas_on_wire.RESPONSES,
    **quorum_on_wire.RESPONSES,
    **raft_on_wire.RESPONSES,
    **servers_on_wire.RESPONSES,
    **control_on_wire.RESPONSES,
    **share_on_wire.RESPONSES,
    **acls_on_wire.RESPONSES,
    **transactions_on_wire.RESPONSES,
    m.ProduceRequest: _produced,
    m.ListOffsetsRequest: _listed,
    m.OffsetsForLeaderEpochRequest: _epochs_ended,
    m.MetadataRequest: _described,
    m.FindCoordinatorRequest: _coordinator_found,
    m.JoinGroupRequest: _joined,
    m.SyncGroupRequest: lambda _, b: m.SyncGroupResponse(
        _error(b), b["ProtocolType"], b["ProtocolName"], _assigned(b["Assignment"])
    ),
    m.HeartbeatRequest: lambda _, b: m.HeartbeatResponse(_error(b)),
    m.DescribeGroupsRequest: lambda _, b: m.DescribeGroupsResponse(
        tuple(_group_described(group) for group in b["Groups"])
    ),
    m.ListGroupsRequest: lambda _, b: m.ListGroupsResponse(
        _error(b),
        tuple(
            m.ListedGroup(g["GroupId"], g["ProtocolType"], g["GroupState"], g["GroupType"].lower())
            for g in b["Groups"]
        ),
    ),
    m.DeleteGroupsRequest: lambda _, b: m.DeleteGroupsResponse(
        tuple((each["GroupId"], _error(each)) for each in b["Results"])
    ),
    m.OffsetDeleteRequest: lambda _, b: m.OffsetDeleteResponse(
        _error(b), tuple((tp, _error(p)) for tp, p in _rows(b["Topics"]))
    ),
    m.LeaveGroupRequest: lambda _, b: m.LeaveGroupResponse(
        _error(b),
        tuple((each["MemberId"], each["GroupInstanceId"], _error(each)) for each in b["Members"]),
    ),
    m.OffsetCommitRequest: lambda _, b: m.OffsetCommitResponse(
        tuple((tp, _error(p)) for tp, p in _rows(b["Topics"]))
    ),
    m.OffsetFetchRequest: _offsets_fetched,
    m.ConsumerGroupHeartbeatRequest: _heard,
    m.ConsumerGroupDescribeRequest: _consumer_groups_described,
    m.InitProducerIdRequest: lambda _, b: m.InitProducerIdResponse(
        _error(b), b["ProducerId"], b["ProducerEpoch"]
    ),
    m.CreateTopicsRequest: lambda _, b: m.CreateTopicsResponse(_topic_results(b, "Topics")),
    m.DeleteTopicsRequest: lambda _, b: m.DeleteTopicsResponse(
        Errors.NONE,
        tuple((e["Name"] or "", e.get("TopicId", ""), _error(e), "") for e in b["Responses"]),
    ),
    m.CreatePartitionsRequest: lambda _, b: m.CreatePartitionsResponse(
        Errors.NONE, _topic_results(b, "Results")
    ),
    m.IncrementalAlterConfigsRequest: lambda _, b: m.IncrementalAlterConfigsResponse(
        Errors.NONE,
        tuple(
            (_RESOURCE_NAMES[e["ResourceType"]], e["ResourceName"], _error(e), "")
            for e in b["Responses"]
        ),
    ),
    m.AlterPartitionReassignmentsRequest: lambda _, b: m.AlterPartitionReassignmentsResponse(
        _error(b),
        tuple(
            (TopicPartition(t["Name"], p["PartitionIndex"]), _error(p), "")
            for t in b["Responses"]
            for p in t["Partitions"]
        ),
    ),
    m.ElectLeadersRequest: lambda _, b: m.ElectLeadersResponse(
        _error(b),
        tuple(
            (TopicPartition(t["Topic"], p["PartitionId"]), _error(p))
            for t in b["ReplicaElectionResults"]
            for p in t["PartitionResult"]
        ),
    ),
    m.DeleteRecordsRequest: lambda _, b: m.DeleteRecordsResponse(
        tuple(
            m.DeleteRecordsPartitionResult(tp, _error(p), p["LowWatermark"])
            for tp, p in _rows(b["Topics"])
        )
    ),
    m.UnregisterBrokerRequest: lambda _, b: m.UnregisterBrokerResponse(_error(b)),
    m.ListPartitionReassignmentsRequest: lambda _, b: m.ListPartitionReassignmentsResponse(
        _error(b),
        tuple(
            m.OngoingPartitionReassignment(
                TopicPartition(t["Name"], p["PartitionIndex"]),
                tuple(p["Replicas"]),
                tuple(p["AddingReplicas"]),
                tuple(p["RemovingReplicas"]),
            )
            for t in b["Topics"]
            for p in t["Partitions"]
        ),
    ),
    m.UpdateFeaturesRequest: lambda _, b: m.UpdateFeaturesResponse(
        _error(b), results=tuple((r["Feature"], _error(r), "") for r in b["Results"])
    ),
}
