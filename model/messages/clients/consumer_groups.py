"""The messages of the consumer group protocol (KIP-848): version 1, with ids made by the members.

In them a partition is named by its topic's id. A field of a heartbeat that is None, or −1 for the
timeout, has not changed since the member's last heartbeat.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.values import value

TopicIdPartitions = tuple[tuple[str, tuple[int, ...]], ...]
"""(topic id, partitions) of each topic, both rising."""

JOIN_GROUP_MEMBER_EPOCH = 0
LEAVE_GROUP_MEMBER_EPOCH = -1
LEAVE_GROUP_STATIC_MEMBER_EPOCH = -2
"""Member epochs that join a group, leave it, and leave it with the partitions kept for a while."""


def _size(*assignments: TopicIdPartitions | None) -> int:
    """Return the bytes of some assignments: 16 of each topic's id, 4 of each partition."""
    return sum([18 + 4 * len(numbers) for each in assignments for _, numbers in each or ()])


@value
class ConsumerGroupHeartbeatRequest(Message):
    """A member joins, is alive, says what it owns, subscribes otherwise, or leaves."""

    group_id: str
    member_id: str
    member_epoch: int  # 0 joins, −1 leaves, −2: a static member leaves and comes back
    instance_id: str | None = None  # of a static member
    rack_id: str | None = None
    rebalance_timeout_ms: int = -1  # how long the coordinator waits until it revokes
    subscribed_topic_names: tuple[str, ...] | None = None
    subscribed_topic_regex: str | None = None
    server_assignor: str | None = None
    topic_partitions: TopicIdPartitions | None = None  # what it owns
    client_id: str = ""  # in the header

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        names = sum([2 + len(name) for name in self.subscribed_topic_names or ()])
        return HEADER + 40 + len(self.group_id) + names + _size(self.topic_partitions)


@value
class ConsumerGroupHeartbeatResponse(Message):
    error: Errors
    member_id: str | None = None
    member_epoch: int = 0
    heartbeat_interval_ms: int = 0
    assignment: TopicIdPartitions | None = None  # None: as it was

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + 40 + _size(self.assignment)


@value
class ConsumerGroupDescribeRequest(Message):
    group_ids: tuple[str, ...]


@value
class DescribedConsumerGroupMember:
    member_id: str
    instance_id: str | None
    rack_id: str | None
    member_epoch: int
    client_id: str
    subscribed_topic_names: tuple[str, ...]
    subscribed_topic_regex: str
    assignment: TopicIdPartitions
    target_assignment: TopicIdPartitions


@value
class DescribedConsumerGroup:
    error: Errors
    group_id: str
    group_state: str = ""  # Empty | Assigning | Reconciling | Stable | Dead
    group_epoch: int = 0
    assignment_epoch: int = 0
    assignor_name: str = ""
    members: tuple[DescribedConsumerGroupMember, ...] = ()


@value
class ConsumerGroupDescribeResponse(Message):
    groups: tuple[DescribedConsumerGroup, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        members = [member for group in self.groups for member in group.members]
        sizes = [_size(each.assignment, each.target_assignment) for each in members]
        return HEADER + PER_PARTITION * len(self.groups) + 100 * len(members) + sum(sizes)
