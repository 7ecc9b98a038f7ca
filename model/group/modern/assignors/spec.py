"""What an assignor is given, and what it returns (GroupSpec, SubscribedTopicDescriber).

An assignor is a pure function. Kafka goes through members and topics in the order of its hash
maps, which is as good as any, since their ids are random. Here both go by their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from enum import Enum

from kafkasim.model.group.modern.state.assignment import Assignment
from kafkasim.model.values import value


class SubscriptionType(Enum):
    """Whether all members subscribe to the same topics."""

    HOMOGENEOUS = "homogeneous"
    HETEROGENEOUS = "heterogeneous"


class PartitionAssignorError(Exception):
    """Metadata lack a topic that a member subscribes to, or a partition that it has."""


@value
class MemberSpec:
    """A member as an assignor sees it."""

    instance_id: str | None
    topic_ids: tuple[str, ...]  # that it subscribes to, rising
    assignment: Assignment  # its present target


@value
class GroupSpec:
    """The members by id, rising, and the number of partitions of each subscribed topic by id."""

    members: Mapping[str, MemberSpec]
    subscription_type: SubscriptionType
    partitions: Mapping[str, int]

    def num_partitions(self, topic_id: str) -> int:
        """Return the number of partitions of a topic.

        Raises:
            PartitionAssignorError: it is unknown.
        """
        number = self.partitions.get(topic_id)
        if number is None:
            raise PartitionAssignorError(topic_id)
        return number

    def owners(self) -> dict[tuple[str, int], str]:
        """Return the member of each partition that the present target assigns."""
        return {
            (topic_id, partition): member_id
            for member_id, member in self.members.items()
            for topic_id, some in member.assignment.items()
            for partition in some
        }


GroupAssignment = Mapping[str, Assignment]  # by member id; members without partitions may lack
Assignor = Callable[[GroupSpec], GroupAssignment]
