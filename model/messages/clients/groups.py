"""FindCoordinator and the classic group protocol."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value


@value
class FindCoordinatorRequest(Message):
    key: str
    key_type: int = 0  # 0 group, 1 transaction


@value
class FindCoordinatorResponse(Message):
    error: Errors
    node_id: int
    address: str


@value
class JoinGroupRequest(Message):
    """``protocols``: (assignor name, subscription) in order of preference."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, Subscription], ...]
    client_id: str = ""
    reason: str = ""


@value
class Subscription:
    """ConsumerProtocolSubscription."""

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    user_data: Any = None


@value
class JoinGroupMember:
    member_id: str
    group_instance_id: str | None
    subscription: Subscription


@value
class JoinGroupResponse(Message):
    error: Errors
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: tuple[JoinGroupMember, ...]  # only for the leader


@value
class SyncGroupRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, tuple[TopicPartition, ...]], ...]  # only from the leader


@value
class SyncGroupResponse(Message):
    error: Errors
    protocol_type: str | None
    protocol_name: str | None
    assignment: tuple[TopicPartition, ...]


@value
class HeartbeatRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


@value
class HeartbeatResponse(Message):
    error: Errors


@value
class LeaveGroupRequest(Message):
    group_id: str
    members: tuple[tuple[str, str | None, str], ...]  # (member id, instance id, reason)


@value
class LeaveGroupResponse(Message):
    error: Errors
    members: tuple[tuple[str, str | None, Errors], ...]


@value
class OffsetCommitRequest(Message):
    """``offsets``: (partition, offset, leader epoch or −1, metadata)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[tuple[TopicPartition, int, int, str], ...]


@value
class OffsetCommitResponse(Message):
    results: tuple[tuple[TopicPartition, Errors], ...]


@value
class OffsetFetchRequest(Message):
    group_id: str
    partitions: tuple[TopicPartition, ...] | None  # None: all the group has
    require_stable: bool = True


@value
class OffsetFetchPartition:
    tp: TopicPartition
    offset: int  # −1: no committed offset
    leader_epoch: int
    metadata: str
    error: Errors


@value
class OffsetFetchResponse(Message):
    error: Errors
    partitions: tuple[OffsetFetchPartition, ...]
