"""What operators ask of groups: describe, list and delete them, and delete their offsets."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.messages.clients.groups import Subscription
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value


@value
class DescribeGroupsRequest(Message):
    """Asked about groups of the classic protocol; version 6 (KIP-1043)."""

    group_ids: tuple[str, ...]


@value
class DescribedGroupMember:
    member_id: str
    group_instance_id: str | None
    client_id: str
    subscription: Subscription | None  # for the chosen assignor; None unless the group is stable
    assignment: tuple[TopicPartition, ...]  # () unless the group is stable


@value
class DescribedGroup:
    error: Errors
    group_id: str
    state: str = ""  # as in ClassicGroupState; Dead for one that is not there
    protocol_type: str = ""
    protocol: str = ""  # the assignor, of a stable group
    members: tuple[DescribedGroupMember, ...] = ()


@value
class DescribeGroupsResponse(Message):
    groups: tuple[DescribedGroup, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        members = [member for group in self.groups for member in group.members]
        partitions = sum([len(member.assignment) for member in members])
        return HEADER + 60 * len(self.groups) + 100 * len(members) + 4 * partitions


@value
class ListGroupsRequest(Message):
    """Asked of every broker: each lists the groups that it coordinates."""

    states: tuple[str, ...] = ()  # whatever their case; () for all
    types: tuple[str, ...] = ()  # classic, consumer; () for all


@value
class ListedGroup:
    group_id: str
    protocol_type: str
    state: str
    group_type: str


@value
class ListGroupsResponse(Message):
    error: Errors
    groups: tuple[ListedGroup, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + 50 * len(self.groups)


@value
class DeleteGroupsRequest(Message):
    group_ids: tuple[str, ...]


@value
class DeleteGroupsResponse(Message):
    results: tuple[tuple[str, Errors], ...]  # by group


@value
class OffsetDeleteRequest(Message):
    group_id: str
    partitions: tuple[TopicPartition, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + PER_PARTITION * len(self.partitions)


@value
class OffsetDeleteResponse(Message):
    error: Errors
    results: tuple[tuple[TopicPartition, Errors], ...] = ()
