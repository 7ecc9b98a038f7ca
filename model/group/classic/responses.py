"""The answers to JoinGroup and SyncGroup."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, ClassicMember
from kafkasim.model.messages import JoinGroupResponse, SyncGroupResponse


def joined(
    group: ClassicGroup, member: ClassicMember, skip_assignment: bool = False
) -> JoinGroupResponse:
    """Return the answer to a join in the current generation; only the leader sees the members."""
    assert group.leader is not None, group.group_id
    leads = group.leader == member.member_id
    return JoinGroupResponse(
        Errors.NONE,
        group.generation,
        group.protocol_type,
        group.protocol,
        group.leader,
        skip_assignment,
        member.member_id,
        group.joined_members() if leads else (),
    )


def join_error(error: Errors, member_id: str) -> JoinGroupResponse:
    """Return the answer to a join that failed."""
    return JoinGroupResponse(error, -1, None, None, "", False, member_id, ())


def synced(group: ClassicGroup, member: ClassicMember) -> SyncGroupResponse:
    """Return the answer to a sync: the member's assignment."""
    return SyncGroupResponse(Errors.NONE, group.protocol_type, group.protocol, member.assignment)


def sync_error(error: Errors) -> SyncGroupResponse:
    """Return the answer to a sync that failed."""
    return SyncGroupResponse(error, None, None, ())
