"""What members and operators ask of a share group's coordinator (KIP-932): the versions of 4.1.

ShareGroupHeartbeat and ShareGroupDescribe have version 1. In a heartbeat, as in those of consumer
groups, a partition is named by its topic's id, and a field that is None has not changed.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.messages.clients.consumer_groups import TopicIdPartitions
from kafkasim.model.values import value


def _size(assignment: TopicIdPartitions | None) -> int:
    return sum([18 + 4 * len(numbers) for _, numbers in assignment or ()])


@value
class ShareGroupHeartbeatRequest(Message):
    """A member joins, is alive, subscribes otherwise, or leaves."""

    group_id: str
    member_id: str  # made by the member
    member_epoch: int  # 0 joins, −1 leaves
    rack_id: str | None = None
    subscribed_topic_names: tuple[str, ...] | None = None
    client_id: str = ""  # in the header

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        names = sum([2 + len(name) for name in self.subscribed_topic_names or ()])
        return HEADER + 30 + len(self.group_id) + names


@value
class ShareGroupHeartbeatResponse(Message):
    error: Errors
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicIdPartitions | None = None  # None: as it was

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + 40 + _size(self.assignment)


@value
class ShareGroupDescribeRequest(Message):
    group_ids: tuple[str, ...]


@value
class DescribedShareGroupMember:
    member_id: str
    rack_id: str | None
    member_epoch: int
    client_id: str
    subscribed_topic_names: tuple[str, ...]
    assignment: TopicIdPartitions


@value
class DescribedShareGroup:
    error: Errors
    group_id: str
    group_state: str = ""  # Empty | Stable | Dead
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedShareGroupMember, ...] = ()


@value
class ShareGroupDescribeResponse(Message):
    groups: tuple[DescribedShareGroup, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        members = [member for group in self.groups for member in group.members]
        sizes = sum([_size(member.assignment) for member in members])
        return HEADER + PER_PARTITION * len(self.groups) + 100 * len(members) + sizes


@value
class DescribeShareGroupOffsetsRequest(Message):
    """Asked where groups stand: their share-partition start offsets."""

    groups: tuple[DescribeShareGroupOffsetsGroup, ...]


@value
class DescribeShareGroupOffsetsGroup:
    group_id: str
    topics: tuple[tuple[str, tuple[int, ...]], ...] | None  # (topic, partitions); None: all


@value
class ShareGroupOffset:
    partition_index: int
    start_offset: int  # −1: not initialized
    leader_epoch: int
    error: Errors = Errors.NONE


@value
class DescribedShareGroupOffsets:
    group_id: str
    error: Errors = Errors.NONE
    topics: tuple[tuple[str, str, tuple[ShareGroupOffset, ...]], ...] = ()  # (topic, topic id, …)


@value
class DescribeShareGroupOffsetsResponse(Message):
    groups: tuple[DescribedShareGroupOffsets, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        topics = [topic for group in self.groups for topic in group.topics]
        partitions = sum([len(offsets) for _, _, offsets in topics])
        return HEADER + 40 * len(self.groups) + 40 * len(topics) + 24 * partitions


@value
class AlterShareGroupOffsetsRequest(Message):
    """Sets the start offsets of an empty group."""

    group_id: str
    topics: tuple[tuple[str, tuple[tuple[int, int], ...]], ...]  # (topic, ((partition, offset), …))


@value
class AlterShareGroupOffsetsResponse(Message):
    error: Errors
    responses: tuple[tuple[str, str, tuple[tuple[int, Errors], ...]], ...] = ()
    """(topic, topic id, ((partition, error), …)) of each topic."""


@value
class DeleteShareGroupOffsetsRequest(Message):
    """Removes topics from an empty group."""

    group_id: str
    topics: tuple[str, ...]


@value
class DeleteShareGroupOffsetsResponse(Message):
    error: Errors
    responses: tuple[tuple[str, str, Errors], ...] = ()  # (topic, topic id, error) of each topic
