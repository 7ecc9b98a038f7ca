"""What a ConsumerGroupHeartbeat is refused for (GroupMetadataManager.throwIf…), in its order."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.assignment import Assignment, subtract
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.messages import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatRequest,
)


class HeartbeatRefused(Exception):
    """Ends the work on a heartbeat; ``error`` is what the member is told."""

    def __init__(self, error: Errors) -> None:
        super().__init__(error)
        self.error = error


def refuse_if(wrong: bool, error: Errors) -> None:
    """Raise HeartbeatRefused if something is wrong."""
    if wrong:
        raise HeartbeatRefused(error)


def check_request(request: ConsumerGroupHeartbeatRequest, assignors: tuple[str, ...]) -> None:
    """Check the fields of a heartbeat; the member makes its id itself (KIP-1082).

    Raises:
        HeartbeatRefused: INVALID_REQUEST, or UNSUPPORTED_ASSIGNOR.
    """
    names = (request.member_id, request.group_id, request.instance_id, request.rack_id)
    wrong = any(name is not None and not name.strip() for name in names)
    epoch = request.member_epoch
    if epoch == JOIN_GROUP_MEMBER_EPOCH:
        wrong |= request.rebalance_timeout_ms == -1
        wrong |= request.topic_partitions is None or bool(request.topic_partitions)
        topics, regex = request.subscribed_topic_names, request.subscribed_topic_regex
        wrong |= topics is None and regex is None
    elif epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH:
        wrong |= request.instance_id is None
    else:
        wrong |= epoch < LEAVE_GROUP_STATIC_MEMBER_EPOCH
    refuse_if(wrong, Errors.INVALID_REQUEST)
    assignor = request.server_assignor
    refuse_if(assignor is not None and assignor not in assignors, Errors.UNSUPPORTED_ASSIGNOR)


def check_member_epoch(member: ConsumerGroupMember, epoch: int, owned: Assignment | None) -> None:
    """Check the epoch of a heartbeat.

    The epoch before the present one is good, too, if the member reports no more than what it was
    given: the response with the present one may be lost.

    Raises:
        HeartbeatRefused: FENCED_MEMBER_EPOCH; the member gives its partitions up and joins again.
    """
    if epoch == member.member_epoch:
        return
    lost = epoch == member.previous_member_epoch and epoch < member.member_epoch
    subset = owned is not None and not subtract(owned, member.assigned)
    refuse_if(not (lost and subset), Errors.FENCED_MEMBER_EPOCH)


def check_size(group: ConsumerGroup, member_id: str, max_size: int) -> None:
    """Check that there is room for a new member.

    Raises:
        HeartbeatRefused: GROUP_MAX_SIZE_REACHED.
    """
    full = len(group.members) >= max_size
    refuse_if(full and member_id not in group.members, Errors.GROUP_MAX_SIZE_REACHED)


def known_static_member(
    group: ConsumerGroup, instance_id: str, member_id: str
) -> ConsumerGroupMember:
    """Return the member that has an instance id, if that is ``member_id``.

    Raises:
        HeartbeatRefused: UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID.
    """
    member = group.static_member(instance_id)
    if member is None:
        raise HeartbeatRefused(Errors.UNKNOWN_MEMBER_ID)
    refuse_if(member.member_id != member_id, Errors.FENCED_INSTANCE_ID)
    return member


def known_member(group: ConsumerGroup, member_id: str) -> ConsumerGroupMember:
    """Return the member of an id.

    Raises:
        HeartbeatRefused: UNKNOWN_MEMBER_ID.
    """
    member = group.members.get(member_id)
    if member is None:
        raise HeartbeatRefused(Errors.UNKNOWN_MEMBER_ID)
    return member
