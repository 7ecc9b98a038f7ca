"""The group protocols: classic, consumer (KIP-848) and share (KIP-932), and committed offsets.

Metadata and assignments of the classic protocol are bytes that the coordinator hands on. Of those
of consumers it reads the topics and the owned partitions, as Kafka's coordinator does; the bytes
themselves travel as user data.
"""

from __future__ import annotations

import struct
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.messages import share
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.wire.adapters.base import (
    Adapter,
    Body,
    Call,
    by_topic,
)
from kafkasim.scenarios.wire.adapters.base import partitions as named_partitions
from kafkasim.scenarios.wire.adapters.transactions import (
    error_alone,
    errors_by_topic,
    offsets_of,
    partition_errors,
)
from kafkasim.scenarios.wire.internal import LOCAL_HOST


class _Reader:
    """Reads the fields of ConsumerProtocolSubscription and of its assignment."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def number(self, code: str) -> int:
        (found,) = struct.unpack_from(f">{code}", self.data, self.at)
        self.at += struct.calcsize(f">{code}")
        return int(found)

    def text(self) -> str | None:
        size = self.number("h")
        if size < 0:
            return None
        found = self.data[self.at : self.at + size].decode()
        self.at += size
        return found

    def skip_bytes(self) -> None:
        self.at += max(self.number("i"), 0)

    def partitions(self) -> tuple[TopicPartition, ...]:
        found = []
        for _ in range(self.number("i")):
            topic = self.text() or ""
            numbers = [self.number("i") for _ in range(self.number("i"))]
            found += [TopicPartition(topic, each) for each in numbers]
        return tuple(found)


def subscription_of(data: bytes) -> m.Subscription:
    """Return what a member's metadata says, with the bytes as user data.

    Metadata of another protocol than consumers' names no topics.
    """
    reader = _Reader(data)
    try:
        version = reader.number("h")
        topics = tuple([reader.text() or "" for _ in range(reader.number("i"))])
        reader.skip_bytes()
        owned = reader.partitions() if version >= 1 else ()
        generation = reader.number("i") if version >= 2 else -1
        rack = reader.text() if version >= 3 else None
    except (struct.error, UnicodeDecodeError):
        return m.Subscription((), user_data=data)
    return m.Subscription(topics, owned, generation, rack, data)


def assignment_of(data: bytes) -> m.AssignedPartitions:
    """Return a member's assignment with its bytes."""
    reader = _Reader(data)
    try:
        reader.number("h")
        found = reader.partitions()
    except (struct.error, UnicodeDecodeError):
        found = ()
    return m.AssignedPartitions(found, data)


def _data(subscription: m.Subscription | None) -> bytes:
    found = None if subscription is None else subscription.user_data
    return found if isinstance(found, bytes) else b""


def _join(call: Call) -> list[Any]:
    body = call.body
    session: int = body["SessionTimeoutMs"]
    return [
        m.JoinGroupRequest(
            body["GroupId"],
            session,
            body["RebalanceTimeoutMs"] if call.version >= 1 else session,
            body["MemberId"],
            body.get("GroupInstanceId"),
            body["ProtocolType"],
            tuple(
                [(each["Name"], subscription_of(each["Metadata"])) for each in body["Protocols"]]
            ),
            call.client_id,
            body.get("Reason") or "",
        )
    ]


def _joined(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    name = answer.protocol_name
    return {
        "ErrorCode": answer.error,
        "GenerationId": answer.generation_id,
        "ProtocolType": answer.protocol_type,
        "ProtocolName": "" if name is None and call.version < 7 else name,
        "Leader": answer.leader,
        "SkipAssignment": answer.skip_assignment,
        "MemberId": answer.member_id,
        "Members": [
            {
                "MemberId": each.member_id,
                "GroupInstanceId": each.group_instance_id,
                "Metadata": _data(each.subscription),
            }
            for each in answer.members
        ],
    }


def _sync(call: Call) -> list[Any]:
    body = call.body
    return [
        m.SyncGroupRequest(
            body["GroupId"],
            body["GenerationId"],
            body["MemberId"],
            body.get("GroupInstanceId"),
            body.get("ProtocolType"),
            body.get("ProtocolName"),
            tuple(
                [
                    (each["MemberId"], assignment_of(each["Assignment"]))
                    for each in body["Assignments"]
                ]
            ),
        )
    ]


def _synced(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {
        "ErrorCode": answer.error,
        "ProtocolType": answer.protocol_type,
        "ProtocolName": answer.protocol_name,
        "Assignment": bytes(m.user_data_of(answer.assignment)),
    }


def _heartbeat(call: Call) -> list[Any]:
    body = call.body
    who = body["GroupId"], body["GenerationId"], body["MemberId"], body.get("GroupInstanceId")
    return [m.HeartbeatRequest(*who)]


def _leave(call: Call) -> list[Any]:
    body = call.body
    members = body["Members"] if call.version >= 3 else [{"MemberId": body["MemberId"]}]
    gone = [
        (each["MemberId"], each.get("GroupInstanceId"), each.get("Reason") or "")
        for each in members
    ]
    return [m.LeaveGroupRequest(body["GroupId"], tuple(gone))]


def _left(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    if call.version < 3:
        alone = answer.members[0][2] if answer.members else 0
        return {"ErrorCode": answer.error or alone}
    rows = [
        {"MemberId": member, "GroupInstanceId": instance, "ErrorCode": error}
        for member, instance, error in answer.members
    ]
    return {"ErrorCode": answer.error, "Members": rows}


def _commit(call: Call) -> list[Any]:
    body = call.body
    return [
        m.OffsetCommitRequest(
            body["GroupId"],
            body.get("GenerationIdOrMemberEpoch", -1),
            body.get("MemberId", ""),
            body.get("GroupInstanceId"),
            offsets_of(body),
        )
    ]


def _offset_fetch(call: Call) -> list[Any]:
    body = call.body
    stable = body.get("RequireStable", False)
    groups = body["Groups"] if call.version >= 8 else [body]
    return [
        m.OffsetFetchRequest(
            each["GroupId"],
            named_partitions(each["Topics"], "PartitionIndexes"),
            stable,
            each.get("MemberId"),
            each.get("MemberEpoch", -1),
        )
        for each in groups
    ]


def _offsets_fetched(call: Call, answers: list[Any]) -> Body:
    groups = []
    for request, answer in zip(call.messages, answers, strict=True):
        topics = by_topic(
            (
                each.tp,
                {
                    "PartitionIndex": each.tp.partition,
                    "CommittedOffset": each.offset,
                    "CommittedLeaderEpoch": each.leader_epoch,
                    "Metadata": each.metadata,
                    "ErrorCode": each.error,
                },
            )
            for each in answer.partitions
        )
        groups.append({"GroupId": request.group_id, "Topics": topics, "ErrorCode": answer.error})
    if call.version >= 8:
        return {"Groups": groups}
    return {"Topics": groups[0]["Topics"], "ErrorCode": groups[0]["ErrorCode"]}


def _described(call: Call, answers: list[Any]) -> Body:
    return {
        "Groups": [
            {
                "ErrorCode": group.error,
                "GroupId": group.group_id,
                "GroupState": group.state,
                "ProtocolType": group.protocol_type,
                "ProtocolData": group.protocol,
                "Members": [
                    {
                        "MemberId": each.member_id,
                        "GroupInstanceId": each.group_instance_id,
                        "ClientId": each.client_id,
                        "ClientHost": LOCAL_HOST,
                        "MemberMetadata": _data(each.subscription),
                        "MemberAssignment": bytes(m.user_data_of(each.assignment)),
                    }
                    for each in group.members
                ],
            }
            for group in answers[0].groups
        ]
    }


def _list(call: Call) -> list[Any]:
    body = call.body
    return [
        m.ListGroupsRequest(tuple(body.get("StatesFilter", ())), tuple(body.get("TypesFilter", ())))
    ]


def _listed(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        {
            "GroupId": each.group_id,
            "ProtocolType": each.protocol_type,
            "GroupState": each.state,
            "GroupType": each.group_type,
        }
        for each in answer.groups
    ]
    return {"ErrorCode": answer.error, "Groups": rows}


def _deleted(call: Call, answers: list[Any]) -> Body:
    rows = [{"GroupId": group, "ErrorCode": error} for group, error in answers[0].results]
    return {"Results": rows}


def _delete_offsets(call: Call) -> list[Any]:
    found = [
        TopicPartition(topic["Name"], each["PartitionIndex"])
        for topic in call.body["Topics"]
        for each in topic["Partitions"]
    ]
    return [m.OffsetDeleteRequest(call.body["GroupId"], tuple(found))]


def _offsets_deleted(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {"ErrorCode": answer.error, "Topics": errors_by_topic(answer.results)}


# ------------------------------------------------------------------------ KIP-848 and KIP-932


def _owned(rows: list[Body] | None) -> Any:
    if rows is None:
        return None
    return tuple([(each["TopicId"], tuple(each["Partitions"])) for each in rows])


def _assignment(assignment: Any) -> Body | None:
    if assignment is None:
        return None
    rows = [{"TopicId": topic_id, "Partitions": numbers} for topic_id, numbers in assignment]
    return {"TopicPartitions": rows}


def _named(call: Call, assignment: Any) -> Body:
    rows = [
        {"TopicId": topic_id, "TopicName": call.topic_name(topic_id), "Partitions": numbers}
        for topic_id, numbers in assignment
    ]
    return {"TopicPartitions": rows}


def _consumer_heartbeat(call: Call) -> list[Any]:
    body = call.body
    names = body["SubscribedTopicNames"]
    return [
        m.ConsumerGroupHeartbeatRequest(
            body["GroupId"],
            body["MemberId"],
            body["MemberEpoch"],
            body["InstanceId"],
            body["RackId"],
            body["RebalanceTimeoutMs"],
            None if names is None else tuple(names),
            body.get("SubscribedTopicRegex"),
            body["ServerAssignor"],
            _owned(body["TopicPartitions"]),
            call.client_id,
        )
    ]


def _share_heartbeat(call: Call) -> list[Any]:
    body = call.body
    names = body["SubscribedTopicNames"]
    return [
        share.ShareGroupHeartbeatRequest(
            body["GroupId"],
            body["MemberId"],
            body["MemberEpoch"],
            body["RackId"],
            None if names is None else tuple(names),
            call.client_id,
        )
    ]


def _beaten(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {
        "ErrorCode": answer.error,
        "MemberId": answer.member_id,
        "MemberEpoch": answer.member_epoch,
        "HeartbeatIntervalMs": answer.heartbeat_interval_ms,
        "Assignment": _assignment(answer.assignment),
    }


def _modern_group(group: Any, members: list[Body]) -> Body:
    return {
        "ErrorCode": group.error,
        "GroupId": group.group_id,
        "GroupState": group.group_state,
        "GroupEpoch": group.group_epoch,
        "AssignmentEpoch": group.assignment_epoch,
        "AssignorName": group.assignor_name,
        "Members": members,
    }


def _modern_member(call: Call, each: Any) -> Body:
    return {
        "MemberId": each.member_id,
        "RackId": each.rack_id,
        "MemberEpoch": each.member_epoch,
        "ClientId": each.client_id,
        "ClientHost": LOCAL_HOST,
        "SubscribedTopicNames": each.subscribed_topic_names,
        "Assignment": _named(call, each.assignment),
    }


def _consumer_described(call: Call, answers: list[Any]) -> Body:
    groups = []
    for group in answers[0].groups:
        members = []
        for each in group.members:
            members.append(
                {
                    **_modern_member(call, each),
                    "InstanceId": each.instance_id,
                    "SubscribedTopicRegex": each.subscribed_topic_regex or None,
                    "TargetAssignment": _named(call, each.target_assignment),
                }
            )
        groups.append(_modern_group(group, members))
    return {"Groups": groups}


def _share_described(call: Call, answers: list[Any]) -> Body:
    return {
        "Groups": [
            _modern_group(group, [_modern_member(call, each) for each in group.members])
            for group in answers[0].groups
        ]
    }


GROUPS: dict[str, Adapter] = {
    "JoinGroup": Adapter(0, 9, _join, _joined),
    "SyncGroup": Adapter(0, 5, _sync, _synced),
    "Heartbeat": Adapter(0, 4, _heartbeat, error_alone),
    "LeaveGroup": Adapter(0, 5, _leave, _left),
    "OffsetCommit": Adapter(2, 9, _commit, partition_errors),
    "OffsetFetch": Adapter(1, 9, _offset_fetch, _offsets_fetched),
    "DescribeGroups": Adapter(
        0, 5, lambda call: [m.DescribeGroupsRequest(tuple(call.body["Groups"]))], _described
    ),
    "ListGroups": Adapter(0, 5, _list, _listed),
    "DeleteGroups": Adapter(
        0, 2, lambda call: [m.DeleteGroupsRequest(tuple(call.body["GroupsNames"]))], _deleted
    ),
    "OffsetDelete": Adapter(0, 0, _delete_offsets, _offsets_deleted),
    "ConsumerGroupHeartbeat": Adapter(0, 1, _consumer_heartbeat, _beaten),
    "ConsumerGroupDescribe": Adapter(
        0,
        0,
        lambda call: [m.ConsumerGroupDescribeRequest(tuple(call.body["GroupIds"]))],
        _consumer_described,
    ),
    "ShareGroupHeartbeat": Adapter(1, 1, _share_heartbeat, _beaten),
    "ShareGroupDescribe": Adapter(
        1,
        1,
        lambda call: [share.ShareGroupDescribeRequest(tuple(call.body["GroupIds"]))],
        _share_described,
    ),
}
"""By the API's name."""
