"""Applies the records of consumer groups: the only thing that changes such a group.

Kafka: the replay methods of GroupMetadataManager. They run after an append and during a load, so a
coordinator that takes over knows all that its predecessor knew, with reconciliations under way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.coordinator.loader import ReplayFailed
from kafkasim.model.group.modern.log.records import (
    ConsumerGroupCurrentMemberAssignmentKey,
    ConsumerGroupCurrentMemberAssignmentValue,
    ConsumerGroupMemberMetadataKey,
    ConsumerGroupMemberMetadataValue,
    ConsumerGroupMetadataKey,
    ConsumerGroupPartitionMetadataKey,
    ConsumerGroupRegularExpressionKey,
    ConsumerGroupTargetAssignmentMemberKey,
    ConsumerGroupTargetAssignmentMetadataKey,
)
from kafkasim.model.group.modern.state.assignment import EMPTY
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.messages import LEAVE_GROUP_MEMBER_EPOCH


def replay(
    groups: dict[str, ConsumerGroup], create: Callable[[str], ConsumerGroup], key: Any, found: Any
) -> None:
    """Apply one record; the tombstone of something unknown changes nothing.

    ``create(group_id)`` makes a group that does not exist yet and puts it among ``groups``.
    """
    group = groups.get(key.group)
    if group is None:
        if found is None:
            return
        group = create(key.group)
    kind = type(key)
    if kind is ConsumerGroupMetadataKey and found is None:
        if group.members or group.target or group.target_epoch != -1:
            raise ReplayFailed(f"{group.group_id} has members or a target, and is deleted")
        del groups[group.group_id]
    else:
        _REPLAYS[kind](group, key, found)


def _group_epoch(group: ConsumerGroup, _key: ConsumerGroupMetadataKey, found: Any) -> None:
    group.group_epoch = found.epoch
    group.hashes_topics = found.topics is not None
    if found.topics is not None:
        group.metadata = dict(found.topics)


def _metadata(group: ConsumerGroup, _key: ConsumerGroupPartitionMetadataKey, found: Any) -> None:
    group.has_metadata_record = found is not None
    if found is not None:
        group.metadata = dict(found.topics)
    elif not group.hashes_topics:
        group.metadata = {}


def _regex(group: ConsumerGroup, key: ConsumerGroupRegularExpressionKey, found: Any) -> None:
    group.regexes.pop(key.regex, None)
    if found is not None:
        group.regexes[key.regex] = found


def _target_epoch(
    group: ConsumerGroup, _key: ConsumerGroupTargetAssignmentMetadataKey, found: Any
) -> None:
    if found is None and group.target:
        raise ReplayFailed(f"{group.group_id} has targets of members, and its epoch is deleted")
    group.target_epoch = -1 if found is None else found.assignment_epoch


def _target(group: ConsumerGroup, key: ConsumerGroupTargetAssignmentMemberKey, found: Any) -> None:
    if found is None:
        group.remove_target(key.member_id)
    else:
        group.set_target(key.member_id, found)


def _member(
    group: ConsumerGroup,
    key: ConsumerGroupMemberMetadataKey,
    found: ConsumerGroupMemberMetadataValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if found is None:
        if member is not None:
            if member.member_epoch != LEAVE_GROUP_MEMBER_EPOCH or key.member_id in group.target:
                raise ReplayFailed(f"{key.member_id} has an assignment, and is deleted")
            group.remove_member(key.member_id)
        return
    group.update_member(
        replace(
            member or ConsumerGroupMember(key.member_id),
            instance_id=found.instance_id,
            rack_id=found.rack_id,
            client_id=found.client_id,
            topics=found.topics,
            regex=found.regex,
            rebalance_timeout_ms=found.rebalance_timeout_ms,
            server_assignor=found.server_assignor,
            classic=found.classic,
        )
    )


def _current(
    group: ConsumerGroup,
    key: ConsumerGroupCurrentMemberAssignmentKey,
    found: ConsumerGroupCurrentMemberAssignmentValue | None,
) -> None:
    member = group.members.get(key.member_id)
    if found is None:
        if member is None:
            return
        gone = LEAVE_GROUP_MEMBER_EPOCH
        found = ConsumerGroupCurrentMemberAssignmentValue(gone, gone, member.state, EMPTY, EMPTY)
    group.update_member(
        replace(
            member or ConsumerGroupMember(key.member_id),
            member_epoch=found.member_epoch,
            previous_member_epoch=found.previous_member_epoch,
            state=found.state,
            assigned=found.assigned,
            revoking=found.revoking,
        )
    )


_REPLAYS: dict[type, Callable[[ConsumerGroup, Any, Any], None]] = {
    ConsumerGroupMetadataKey: _group_epoch,
    ConsumerGroupPartitionMetadataKey: _metadata,
    ConsumerGroupMemberMetadataKey: _member,
    ConsumerGroupRegularExpressionKey: _regex,
    ConsumerGroupTargetAssignmentMetadataKey: _target_epoch,
    ConsumerGroupTargetAssignmentMemberKey: _target,
    ConsumerGroupCurrentMemberAssignmentKey: _current,
}
