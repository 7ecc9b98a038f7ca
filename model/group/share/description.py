"""ShareGroupDescribe (ShareGroup.asDescribedGroup)."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.assignment import to_message
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.share.log.state import ShareGroup
from kafkasim.model.group.share.simple_assignor import NAME
from kafkasim.model.messages.share import DescribedShareGroup, DescribedShareGroupMember


def described(group_id: str, group: ShareGroup | None, image: TopicsImage) -> DescribedShareGroup:
    """Return what ShareGroupDescribe answers about a group; None: there is none.

    It describes the group as it is, while Kafka describes it as it was at the last committed
    record. Partitions of deleted topics are left out.
    """
    if group is None:
        return DescribedShareGroup(Errors.GROUP_ID_NOT_FOUND, group_id)
    members = tuple(
        [
            DescribedShareGroupMember(
                m.member_id,
                m.rack_id,
                m.member_epoch,
                m.client_id,
                m.topics,
                tuple([each for each in to_message(m.assigned) if each[0] in image.topics]),
            )
            for m in group.members.values()
        ]
    )
    return DescribedShareGroup(
        Errors.NONE,
        group_id,
        group.state.value,
        group.group_epoch,
        group.target_epoch,
        NAME,
        members,
    )
