"""A classic group as a consumer group, and back: pure (KIP-848, online migration).

    classic group ──a member of the consumer protocol joins──▶ consumer group
    classic group ◀──the last such member leaves or is fenced── consumer group

A classic member stays what it is in between (classic_members.py). Nothing is taken from it: it owns
what its last assignment gave it, at the member epoch that was the group's generation.

Kafka: ConsumerGroup.fromClassicGroup, ClassicGroup.fromConsumerGroup, and the methods
validateOnlineUpgrade and validateOnlineDowngrade… of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Iterable

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import CONSUMER, ClassicGroup, ClassicMember
from kafkasim.model.group.modern.log.records import (
    Entry,
    current_entry,
    epoch_entry,
    group_tombstones,
    member_entry,
    target_entry,
    target_epoch_entry,
)
from kafkasim.model.group.modern.log.replay import replay
from kafkasim.model.group.modern.state.assignment import (
    EMPTY,
    Assignment,
    assignment_of,
    partitions_of,
)
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ClassicMemberMetadata, ConsumerGroupMember
from kafkasim.model.group.modern.state.topics import TopicMetadata, TopicsImage, describe
from kafkasim.model.group.records import GroupMetadataKey
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import user_data_of
from kafkasim.model.records import TopicPartition

UPGRADES = ("bidirectional", "upgrade")
DOWNGRADES = ("bidirectional", "downgrade")
"""The values of group.consumer.migration.policy that allow it."""


class ConversionError(Exception):
    """Kafka cannot make a consumer group of a classic group; ``error`` is what members get."""

    def __init__(self, reason: str, error: Errors = Errors.UNKNOWN_SERVER_ERROR) -> None:
        super().__init__(reason, error)
        self.error = error


def may_upgrade(group: ClassicGroup, policy: str, max_size: int) -> bool:
    """Return whether a classic group with members may become a consumer group.

    ``max_size`` is group.consumer.max.size.
    """
    return policy in UPGRADES and group.protocol_type == CONSUMER and len(group.members) <= max_size


def may_downgrade(group: ConsumerGroup, leaving: Iterable[str], policy: str, max_size: int) -> bool:
    """Return whether a group becomes a classic one when these members leave it.

    ``max_size`` is group.max.size.
    """
    gone = [member_id for member_id in leaving if member_id in group.members]
    left = len(group.members) - len(gone)
    return group.all_classic_without(gone) and policy in DOWNGRADES and 0 < left <= max_size


def upgraded(
    group: ClassicGroup, rules: GroupRules, image: TopicsImage
) -> tuple[ConsumerGroup, list[Entry]]:
    """Return the consumer group that a classic group becomes, and the records of the change.

    Of the topics it knows nothing yet in 4.0, so the next heartbeat raises its epoch.

    Raises:
        ConversionError: the group has not been in a generation yet, so no assignor was chosen; or
            two of its members own one partition. Kafka fails with an exception of Java then. Or
            an assignment has user data, which would be lost (ConsumerGroup.fromClassicGroup).
    """
    if group.protocol is None:
        raise ConversionError(f"{group.group_id} has no protocol yet")
    if any(user_data_of(member.assignment) for member in group.members.values()):
        told = f"{group.group_id} has user data in an assignment"
        raise ConversionError(told, Errors.GROUP_ID_NOT_FOUND)
    members = [_upgraded_member(group, member, image) for member in group.members.values()]
    owned = [each for member in members for each in partitions_of(member.assigned)]
    if len(dict.fromkeys(owned)) != len(owned):
        raise ConversionError(f"{group.group_id} has partitions with two owners")
    entries: list[Entry] = [
        *[member_entry(group.group_id, member) for member in members],
        epoch_entry(group.group_id, group.generation, _topics(members, rules, image)),
        *[target_entry(group.group_id, m.member_id, m.assigned) for m in members],
        target_epoch_entry(group.group_id, group.generation),
        *[current_entry(group.group_id, member) for member in members],
    ]
    made = ConsumerGroup(group.group_id, rules)
    for key, found in entries:
        replay({group.group_id: made}, _none, key, found)
    return made, [(GroupMetadataKey(group.group_id), None), *entries]


def _topics(
    members: list[ConsumerGroupMember], rules: GroupRules, image: TopicsImage
) -> dict[str, TopicMetadata] | None:
    if not rules.converts_with_topics():
        return None
    names = sorted(dict.fromkeys([topic for member in members for topic in member.topics]))
    return describe(image, names, rules.counts_racks())


def _none(group_id: str) -> ConsumerGroup:
    raise AssertionError(group_id)


def _upgraded_member(
    group: ClassicGroup, member: ClassicMember, image: TopicsImage
) -> ConsumerGroupMember:
    told = member.subscription(group.protocol)
    return ConsumerGroupMember(
        member.member_id,
        group.generation,
        group.generation,
        assigned=with_ids(member.assignment, image),
        instance_id=member.instance_id,
        rack_id=told.rack_id,
        client_id=member.client_id,
        topics=tuple(sorted(dict.fromkeys(told.topics))),
        rebalance_timeout_ms=member.rebalance_timeout_ms,
        classic=ClassicMemberMetadata(member.session_timeout_ms, member.protocols),
    )


def downgraded(
    group: ConsumerGroup,
    leaving: Iterable[str],
    joining: ConsumerGroupMember | None,
    image: TopicsImage,
    now_ms: int,
) -> ClassicGroup:
    """Return the classic group that is left when members leave a consumer group.

    ``joining`` is a static member that takes the place of one in the group: it gets its assignment.
    The group is Stable, of the group epoch; the first member leads it.
    """
    made = ClassicGroup(group.group_id, now_ms)
    made.generation = group.group_epoch
    gone = dict.fromkeys(leaving)
    replaced = None if joining is None else group.static_member(joining.instance_id)
    for member in group.members.values():
        if member.member_id not in gone and member is not replaced:
            made.add(_downgraded_member(member), CONSUMER, None)
    if joining is not None:
        made.add(_downgraded_member(joining), CONSUMER, None)
    made.settle(now_ms)
    for left in made.members.values():
        known = left.member_id
        if joining is not None and replaced is not None and known == joining.member_id:
            known = replaced.member_id
        left.assignment = with_names(group.target.get(known, EMPTY), image)
    return made


def _downgraded_member(member: ConsumerGroupMember) -> ClassicMember:
    assert member.classic is not None, member
    return ClassicMember(
        member.member_id,
        member.instance_id,
        member.client_id,
        member.rebalance_timeout_ms,
        member.classic.session_timeout_ms,
        member.classic.protocols,
    )


def downgrade_entries(
    group: ConsumerGroup, joining: ConsumerGroupMember | None, made: ClassicGroup, now_ms: int
) -> list[Entry]:
    """Return the tombstones of a consumer group with its members, and the classic group's record.

    They come after the records by which ``joining`` has replaced a static member.
    """
    replaced = None if joining is None else group.static_member(joining.instance_id)
    members = [
        joining.member_id if joining is not None and member is replaced else member.member_id
        for member in group.members.values()
    ]
    assignments = {member.member_id: member.assignment for member in made.members.values()}
    return [
        *group_tombstones(group.group_id, group.regexes, members),
        (GroupMetadataKey(group.group_id), made.to_record(assignments, now_ms)),
    ]


def with_ids(partitions: Iterable[TopicPartition], image: TopicsImage) -> Assignment:
    """Return partitions with the ids of their topics; those of unknown topics are left out."""
    names = image.topic_names
    return assignment_of(
        [(names[tp.topic], tp.partition) for tp in partitions if tp.topic in names]
    )


def with_names(assignment: Assignment, image: TopicsImage) -> tuple[TopicPartition, ...]:
    """Return partitions with the names of their topics; those of unknown topics are left out."""
    return tuple(
        [
            TopicPartition(image.topics[topic_id].name, partition)
            for topic_id, partition in partitions_of(assignment)
            if topic_id in image.topics
        ]
    )
