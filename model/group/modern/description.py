"""ConsumerGroupDescribe (ConsumerGroup.asDescribedGroup)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.assignment import EMPTY, Assignment, to_message
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.subscriptions import preferred_assignor
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.messages import (
    DescribedConsumerGroup,
    DescribedConsumerGroupMember,
    TopicIdPartitions,
)


def described(
    group_id: str, group: ConsumerGroup | None, default_assignor: str, image: TopicsImage
) -> DescribedConsumerGroup:
    """Return what ConsumerGroupDescribe answers about a group; None: there is none.

    It describes the group as it is, while Kafka describes it as it was at the last committed
    record. Partitions of deleted topics are left out.
    """
    if group is None:
        return DescribedConsumerGroup(Errors.GROUP_ID_NOT_FOUND, group_id)

    def known(assignment: Assignment) -> TopicIdPartitions:
        return tuple([each for each in to_message(assignment) if each[0] in image.topics])

    members = tuple(
        [
            DescribedConsumerGroupMember(
                m.member_id,
                m.instance_id,
                m.rack_id,
                m.member_epoch,
                m.client_id,
                m.topics,
                m.regex,
                known(m.assigned),
                known(group.target.get(m.member_id, EMPTY)),
            )
            for m in group.members.values()
        ]
    )
    return DescribedConsumerGroup(
        Errors.NONE,
        group_id,
        group.state.value,
        group.group_epoch,
        group.target_epoch,
        preferred_assignor(group.members) or default_assignor,
        members,
    )
