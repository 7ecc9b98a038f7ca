"""The answers to JoinGroup and SyncGroup, and how any request about a group is refused."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, ClassicMember
from kafkasim.model.messages import (
    ConsumerGroupDescribeRequest,
    ConsumerGroupDescribeResponse,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    DescribedConsumerGroup,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    OffsetCommitRequest,
    OffsetCommitResponse,
    OffsetDeleteRequest,
    OffsetDeleteResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)


def joined(
    group: ClassicGroup, member: ClassicMember, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the answer to a join in the current generation; only the leader sees the members."""
    assert group.leader is not None, group.group_id
    leads = group.leader == member.member_id
    return JoinGroupResponse(
        Errors.NONE,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader,
        skip_assignment,
        member.member_id,
        group.joined_members() if leads else (),
    )


def join_error(error: Errors, member_id: str) -> JoinGroupResponse:
    """Return the answer to a join that failed."""
    return JoinGroupResponse(error, -1, None, None, "", False, member_id, ())


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Return the answer to a sync: the member's assignment."""
    return SyncGroupResponse(Errors.NONE, group.protocol_type, group.protocol, member.assignment)


def sync_error(error: Errors) -> SyncGroupResponse:
    """Return the answer to a sync that failed."""
    return SyncGroupResponse(error, None, None, ())


def refusal(request: Any, error: Errors) -> Any:
    """Return the answer to a request that no active shard can serve."""
    kind = type(request)
    loading = error is Errors.COORDINATOR_LOAD_IN_PROGRESS
    if kind is JoinGroupRequest:
        return join_error(error, request.member_id)
    if kind is SyncGroupRequest:
        return sync_error(error)
    if kind is HeartbeatRequest:
        return HeartbeatResponse(Errors.NONE if loading else error)
    if kind is LeaveGroupRequest:
        return LeaveGroupResponse(error, ())
    if kind is OffsetCommitRequest:
        return OffsetCommitResponse(tuple([(offset[0], error) for offset in request.offsets]))
    if kind is ConsumerGroupHeartbeatRequest:
        return ConsumerGroupHeartbeatResponse(error)
    if kind is ConsumerGroupDescribeRequest:
        groups = tuple([DescribedConsumerGroup(error, each) for each in request.group_ids])
        return ConsumerGroupDescribeResponse(groups)
    if kind is OffsetDeleteRequest:
        return OffsetDeleteResponse(error)
    assert kind is OffsetFetchRequest, request
    return OffsetFetchResponse(error, ())
