"""Computes the target assignment of a group (TargetAssignmentBuilder): pure."""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.model.group.modern.assignors.spec import (
    Assignor,
    GroupAssignment,
    GroupSpec,
    MemberSpec,
    PartitionAssignorError,
)
from kafkasim.model.group.modern.log.records import Entry, target_entry, target_epoch_entry
from kafkasim.model.group.modern.state.assignment import EMPTY
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.subscriptions import Members, Regexes, subscription_type
from kafkasim.model.group.modern.state.topics import TopicMetadata, TopicsImage

__all__ = ["PartitionAssignorError", "compute_target"]


def compute_target(
    group: ConsumerGroup,
    epoch: int,
    members: Members,
    regexes: Regexes,
    metadata: Mapping[str, TopicMetadata],
    image: TopicsImage,
    assignor: Assignor,
) -> tuple[list[Entry], GroupAssignment]:
    """Return the records of a group's new target assignment, and the assignment.

    ``members`` are the members to be, ``metadata`` their topics. A record is written for each
    member whose target changes.

    Raises:
        PartitionAssignorError: a member subscribes to a topic that ``metadata`` lacks.
    """
    specs = {
        member_id: MemberSpec(
            members[member_id].instance_id,
            _topic_ids(members[member_id], regexes, image),
            group.target.get(_known_as(group, members[member_id]), EMPTY),
        )
        for member_id in sorted(members)
    }
    partitions = {topic.topic_id: topic.partitions for topic in metadata.values()}
    spec = GroupSpec(specs, subscription_type(members, regexes), partitions)
    assigned = assignor(spec)
    entries = [
        target_entry(group.group_id, member_id, assigned.get(member_id, EMPTY))
        for member_id in specs
        if assigned.get(member_id, EMPTY) != group.target.get(member_id)
    ]
    return [*entries, target_epoch_entry(group.group_id, epoch)], assigned


def _known_as(group: ConsumerGroup, member: ConsumerGroupMember) -> str:
    """Return under which id the group has a target for a member: a static one's may be old."""
    if member.instance_id is None:
        return member.member_id
    return group.static_members.get(member.instance_id, member.member_id)


def _topic_ids(
    member: ConsumerGroupMember, regexes: Regexes, image: TopicsImage
) -> tuple[str, ...]:
    resolved = regexes.get(member.regex)
    names = {*member.topics, *(() if resolved is None else resolved.topics)}
    return tuple(sorted([image.topic_names[name] for name in names if name in image.topic_names]))
