"""Applies the records of share groups: the only thing that changes such a group.

Kafka: the replay methods of GroupMetadataManager.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.coordinator.loader import ReplayFailed
from kafkasim.model.group.modern.state.assignment import EMPTY
from kafkasim.model.group.share.log.records import (
    ShareGroupCurrentMemberAssignmentKey,
    ShareGroupCurrentMemberAssignmentValue,
    ShareGroupMemberMetadataKey,
    ShareGroupMetadataKey,
    ShareGroupStatePartitionMetadataKey,
    ShareGroupTargetAssignmentMemberKey,
    ShareGroupTargetAssignmentMetadataKey,
)
from kafkasim.model.group.share.log.state import (
    InitializedPartitions,
    ShareGroup,
    ShareGroupMember,
    StatePartitions,
    Topics,
)
from kafkasim.model.messages import LEAVE_GROUP_MEMBER_EPOCH


def replay_share_group(
    groups: dict[str, ShareGroup],
    create: Callable[[str], ShareGroup],
    key: Any,
    found: Any,
    now_ms: int,
) -> None:
    """Apply one record; the tombstone of something unknown changes nothing.

    ``create(group_id)`` makes a group that does not exist yet and puts it among ``groups``.
    ``now_ms`` is when share partitions are initializing from.
    """
    group = groups.get(key.group)
    if group is None:
        if found is None:
            return
        group = create(key.group)
    kind = type(key)
    if kind is ShareGroupMetadataKey and found is None:
        if group.members or group.target or group.target_epoch != -1:
            raise ReplayFailed(f"{group.group_id} has members or a target, and is deleted")
        del groups[group.group_id]
    elif kind is ShareGroupStatePartitionMetadataKey:
        group.state_partitions = None if found is None else _state_partitions(found, now_ms)
    else:
        _REPLAYS[kind](group, key, found)


def _state_partitions(found: Any, now_ms: int) -> StatePartitions:
    deleting = tuple([topic_id for topic_id, _ in found.deleting])
    return StatePartitions(
        _topics(found.initializing, now_ms), _topics(found.initialized, now_ms), deleting
    )


def _topics(rows: tuple[tuple[str, str, tuple[int, ...]], ...], now_ms: int) -> Topics:
    return {each: InitializedPartitions(name, numbers, now_ms) for each, name, numbers in rows}


def _epoch(group: ShareGroup, _key: Any, found: Any) -> None:
    group.group_epoch, group.metadata_hash = found.epoch, found.metadata_hash


def _target_epoch(group: ShareGroup, _key: Any, found: Any) -> None:
    if found is None and group.target:
        raise ReplayFailed(f"{group.group_id} has targets of members, and its epoch is deleted")
    group.target_epoch = -1 if found is None else found.assignment_epoch


def _target(group: ShareGroup, key: ShareGroupTargetAssignmentMemberKey, found: Any) -> None:
    if found is None:
        group.target.pop(key.member_id, None)
    else:
        group.target[key.member_id] = found


def _member(group: ShareGroup, key: ShareGroupMemberMetadataKey, found: Any) -> None:
    member = group.members.get(key.member_id)
    if found is None:
        if member is not None:
            if member.member_epoch != LEAVE_GROUP_MEMBER_EPOCH or key.member_id in group.target:
                raise ReplayFailed(f"{key.member_id} has an assignment, and is deleted")
            del group.members[key.member_id]
        return
    group.members[key.member_id] = replace(
        member or ShareGroupMember(key.member_id),
        rack_id=found.rack_id,
        client_id=found.client_id,
        topics=found.topics,
    )


def _current(group: ShareGroup, key: ShareGroupCurrentMemberAssignmentKey, found: Any) -> None:
    member = group.members.get(key.member_id)
    if found is None:
        if member is None:
            return
        gone = LEAVE_GROUP_MEMBER_EPOCH
        found = ShareGroupCurrentMemberAssignmentValue(gone, gone, EMPTY)
    group.members[key.member_id] = replace(
        member or ShareGroupMember(key.member_id),
        member_epoch=found.member_epoch,
        previous_member_epoch=found.previous_member_epoch,
        assigned=found.assigned,
    )


_REPLAYS: dict[type, Callable[[ShareGroup, Any, Any], None]] = {
    ShareGroupMetadataKey: _epoch,
    ShareGroupMemberMetadataKey: _member,
    ShareGroupTargetAssignmentMetadataKey: _target_epoch,
    ShareGroupTargetAssignmentMemberKey: _target,
    ShareGroupCurrentMemberAssignmentKey: _current,
}
