"""FindCoordinator, the classic group protocol, and committed offsets."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value


@value
class FindCoordinatorRequest(Message):
    key: str  # a group id, a transactional id, or groupId:topicId:partition of a share partition
    key_type: int = 0  # 0 group, 1 transaction, 2 share (KIP-932)


@value
class FindCoordinatorResponse(Message):
    error: Errors
    node_id: int
    address: str


@value
class JoinGroupRequest(Message):
    """A member joins a classic group, or joins again in a rebalance."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str  # "" for a new member: the coordinator hands an id out (KIP-394)
    group_instance_id: str | None  # of a static member (KIP-345)
    protocol_type: str  # ``consumer`` for consumers
    protocols: tuple[tuple[str, Subscription], ...]  # (assignor, subscription) by preference
    client_id: str = ""
    reason: str = ""  # for the logs (KIP-800)


@value
class Subscription:
    """What an assignor knows of a consumer (ConsumerProtocolSubscription)."""

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()  # for cooperative assignors (KIP-429)
    generation_id: int = -1  # in which it was assigned them (KIP-792); −1: none
    rack_id: str | None = None  # client.rack (KIP-881)
    user_data: Any = None  # what the member's assignor tells the leader's


@value
class StickyUserData:
    """What a member of the sticky assignor was assigned last (STICKY_ASSIGNOR_USER_DATA_V1)."""

    partitions: tuple[TopicPartition, ...]
    generation: int


@value
class JoinGroupMember:
    """A member, as the leader of the group sees it."""

    member_id: str
    group_instance_id: str | None
    subscription: Subscription


@value
class JoinGroupResponse(Message):
    error: Errors
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str  # a member id
    skip_assignment: bool  # the leader need not compute an assignment (KIP-814)
    member_id: str
    members: tuple[JoinGroupMember, ...]  # in the leader's response only


class AssignedPartitions(tuple[TopicPartition, ...]):
    """The partitions of a member with what the leader's assignor tells the member's.

    Models ConsumerProtocolAssignment. The group coordinator keeps it as it is. It equals the tuple
    of its partitions: comparisons leave the user data out. A worker of Connect has no partitions.
    """

    user_data: Any

    def __new__(
        cls, partitions: Iterable[TopicPartition], user_data: Any = b""
    ) -> AssignedPartitions:
        made = super().__new__(cls, partitions)
        made.user_data = user_data
        return made


def user_data_of(partitions: tuple[TopicPartition, ...]) -> Any:
    """Return the user data of a member's assignment, b"" if its assignor has none."""
    return partitions.user_data if isinstance(partitions, AssignedPartitions) else b""


@value
class SyncGroupRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    # (member id, partitions) of each member, the leader's; maybe AssignedPartitions
    assignments: tuple[tuple[str, tuple[TopicPartition, ...]], ...]


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
    """A commit of a member, or of a simple consumer: generation −1 and no member id."""

    group_id: str
    generation_id: int  # of a member of a consumer group its member epoch (KIP-848)
    member_id: str
    group_instance_id: str | None
    # (partition, offset, leader epoch of the last record read or −1, metadata)
    offsets: tuple[tuple[TopicPartition, int, int, str], ...]


@value
class OffsetCommitResponse(Message):
    results: tuple[tuple[TopicPartition, Errors], ...]


@value
class OffsetFetchRequest(Message):
    group_id: str
    partitions: tuple[TopicPartition, ...] | None  # None: all that the group has committed
    require_stable: bool = True  # wait for commits that are not replicated yet (KIP-447)
    member_id: str | None = None  # of a member of a consumer group (KIP-848), and its epoch
    member_epoch: int = -1


@value
class OffsetFetchPartitionResponse:
    tp: TopicPartition
    offset: int  # −1: no committed offset
    leader_epoch: int
    metadata: str
    error: Errors


@value
class OffsetFetchResponse(Message):
    error: Errors
    partitions: tuple[OffsetFetchPartitionResponse, ...]
