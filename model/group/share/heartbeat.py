"""ShareGroupHeartbeat (GroupMetadataManager.shareGroupHeartbeat, KIP-932).

    heartbeat ──▶ checks of the group, its size, the member and its epoch
                   1  the member is new or tells news, or share partitions wait to be assigned:
                      the group epoch rises
                   2  the group epoch is above the target's: a new target assignment
                   3  the member goes to the target's epoch
                   4  share partitions of subscribed topics begin to be initialized
              ──▶ all records in one append, and the answer once they are committed

Left out: rack-aware assignment, and a change of racks as a change of the subscribed topics.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareGroupAssigned
from kafkasim.model.group.modern.assignors.spec import PartitionAssignorError
from kafkasim.model.group.modern.checks import HeartbeatRefused, refuse_if
from kafkasim.model.group.modern.state.assignment import EMPTY, Assignment, to_message
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.initialization import StateInitialization
from kafkasim.model.group.share.log.records import (
    Entry,
    current_entry,
    epoch_entry,
    member_entry,
    target_entry,
    target_epoch_entry,
)
from kafkasim.model.group.share.log.state import (
    ShareGroup,
    ShareGroupMember,
    metadata_hash,
    subscribed_topics,
    subscription_type,
    target_of,
)
from kafkasim.model.group.share.log.writer import ShareGroupWriter
from kafkasim.model.group.share.members import ShareGroupMembers
from kafkasim.model.group.share.simple_assignor import (
    ShareGroupSpec,
    ShareMemberSpec,
    simple_assign,
)
from kafkasim.model.messages import JOIN_GROUP_MEMBER_EPOCH, LEAVE_GROUP_MEMBER_EPOCH
from kafkasim.model.messages.share import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse

METADATA_REFRESH_US = (2**31 - 1) * 1000
"""How long a lookup of topics is good if none of them changes (METADATA_REFRESH_INTERVAL_MS)."""


class ShareGroupHeartbeats:
    """Serves the heartbeats of the share groups of an active shard."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        image: TopicsImage,
        writer: ShareGroupWriter,
        members: ShareGroupMembers,
        initialization: StateInitialization,
    ) -> None:
        self._runtime = runtime
        self._config = config
        self._image = image
        self._writer = writer
        self._members = members
        self._initialization = initialization

    def on_heartbeat(
        self, shard: GroupShard, parked: Parked, request: ShareGroupHeartbeatRequest, now: int
    ) -> None:
        """Serve a heartbeat; it is answered when what it has changed is committed.

        Share partitions that begin by it are initialized after the answer.
        """
        entries: list[Entry] = []
        begun: Assignment = EMPTY
        try:
            if request.member_epoch == LEAVE_GROUP_MEMBER_EPOCH:
                response = self._leave(shard, request, entries)
            else:
                response, begun = self._heartbeat(shard, request, entries, now)
        except HeartbeatRefused as refused:
            self._runtime.respond(parked, ShareGroupHeartbeatResponse(refused.error))
            return
        group_id = request.group_id
        reason = f"heartbeat of {request.member_id}, epoch {request.member_epoch}"
        error = self._writer.write(shard, group_id, entries, reason, now)
        if error is not Errors.NONE:
            self._runtime.respond(parked, ShareGroupHeartbeatResponse(client_error(error)))
            return
        group = shard.share_groups.get(group_id)
        epoch = 0 if group is None else group.group_epoch

        def on_committed(_: None, failed: Errors, _at: int) -> None:
            if failed is not Errors.NONE:
                self._runtime.respond(parked, ShareGroupHeartbeatResponse(client_error(failed)))
                return
            self._record_assigned(group_id, response)
            self._runtime.respond(parked, response)
            if begun:
                self._initialization.initialize(shard, group_id, epoch, begun)

        self._runtime.defer(shard.context, on_committed, None, now)

    def _record_assigned(self, group_id: str, response: ShareGroupHeartbeatResponse) -> None:
        if response.assignment is None or response.member_id is None:
            return
        topics = self._image.topics
        names = [
            f"{topics[topic_id].name if topic_id in topics else topic_id}-{number}"
            for topic_id, numbers in response.assignment
            for number in numbers
        ]
        epoch, member_id = response.member_epoch, response.member_id
        fact = ShareGroupAssigned(group_id, epoch, member_id, tuple(names))
        self._runtime.out.append(fact)

    def _leave(
        self, shard: GroupShard, request: ShareGroupHeartbeatRequest, entries: list[Entry]
    ) -> ShareGroupHeartbeatResponse:
        group = shard.share_groups.get(request.group_id)
        if group is None:
            raise HeartbeatRefused(Errors.GROUP_ID_NOT_FOUND)
        refuse_if(request.member_id not in group.members, Errors.UNKNOWN_MEMBER_ID)
        entries += self._members.removal(group, request.member_id)
        return ShareGroupHeartbeatResponse(Errors.NONE, request.member_id, request.member_epoch)

    def _heartbeat(
        self,
        shard: GroupShard,
        request: ShareGroupHeartbeatRequest,
        entries: list[Entry],
        now: int,
    ) -> tuple[ShareGroupHeartbeatResponse, Assignment]:
        """Return the answer, and the share partitions that begin to be initialized."""
        joins = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        group = _group(shard, request.group_id, joins)
        member_id = request.member_id
        full = len(group.members) >= self._config.group_share_max_size
        refuse_if(full and member_id not in group.members, Errors.GROUP_MAX_SIZE_REACHED)
        member = group.members.get(member_id)
        if member is None:
            refuse_if(not joins, Errors.UNKNOWN_MEMBER_ID)
            member = ShareGroupMember(member_id)
        _check_member_epoch(member, request.member_epoch)

        updated = _told(member, request)
        bump = False
        if updated != member:
            entries.append(member_entry(group.group_id, updated))
            bump = updated.topics != member.topics
        members = {**group.members, member_id: updated}
        epoch = self._refresh(group, members, bump or group.assignment_pending(), entries, now)
        target_epoch, target = self._target(group, members, updated, epoch, entries)
        if updated.member_epoch != target_epoch:
            previous = updated.member_epoch
            updated = replace(
                updated,
                member_epoch=target_epoch,
                previous_member_epoch=previous,
                assigned=target,
            )
            entries.append(current_entry(group.group_id, updated))
        self._members.arm_session(shard, group.group_id, member_id, now)
        names = subscribed_topics(members)
        begun = self._initialization.begin(group, names, entries, now)
        full_request = request.subscribed_topic_names is not None
        told = joins or full_request or updated.assigned != member.assigned
        return ShareGroupHeartbeatResponse(
            Errors.NONE,
            member_id,
            updated.member_epoch,
            self._initialization.heartbeat_interval_ms(group.group_id),
            to_message(updated.assigned) if told else None,
        ), begun

    def _refresh(
        self,
        group: ShareGroup,
        members: dict[str, ShareGroupMember],
        bump: bool,
        entries: list[Entry],
        now: int,
    ) -> int:
        """Look the topics up if need be, and return the group epoch to be."""
        epoch = group.group_epoch
        if not bump and not group.metadata_expired(now):
            return epoch
        found = metadata_hash(subscribed_topics(members), self._image)
        if bump or found != group.metadata_hash:
            epoch += 1
            entries.append(epoch_entry(group.group_id, epoch, found))
        group.refresh_deadline_us = now + METADATA_REFRESH_US
        group.refresh_epoch = epoch
        return epoch

    def _target(
        self,
        group: ShareGroup,
        members: dict[str, ShareGroupMember],
        updated: ShareGroupMember,
        epoch: int,
        entries: list[Entry],
    ) -> tuple[int, Assignment]:
        """Return the target's epoch and the member's part, computed if it is old.

        Raises:
            HeartbeatRefused: UNKNOWN_SERVER_ERROR, the assignor has failed.
        """
        if epoch <= group.target_epoch:
            return group.target_epoch, target_of(group, updated.member_id)
        known = self._image.topic_names
        specs = {
            member_id: ShareMemberSpec(
                tuple(sorted([known[name] for name in members[member_id].topics if name in known])),
                target_of(group, member_id),
            )
            for member_id in sorted(members)
        }
        same = subscription_type(subscribed_topics(members), len(members))
        try:
            assigned = simple_assign(ShareGroupSpec(specs, same, group.initialized()))
        except PartitionAssignorError:
            raise HeartbeatRefused(Errors.UNKNOWN_SERVER_ERROR) from None
        entries += [
            target_entry(group.group_id, member_id, assigned.get(member_id, EMPTY))
            for member_id in specs
            if assigned.get(member_id, EMPTY) != group.target.get(member_id)
        ]
        entries.append(target_epoch_entry(group.group_id, epoch))
        return epoch, assigned.get(updated.member_id, EMPTY)


def is_valid(request: ShareGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat has the fields that it needs
    (throwIfShareGroupHeartbeatRequestIsInvalid)."""
    names = (request.member_id, request.group_id, request.rack_id)
    wrong = any(name is not None and not name.strip() for name in names)
    if request.member_epoch == JOIN_GROUP_MEMBER_EPOCH:
        wrong |= not request.subscribed_topic_names
    else:
        wrong |= request.member_epoch < LEAVE_GROUP_MEMBER_EPOCH
    return not wrong


def _group(shard: GroupShard, group_id: str, joins: bool) -> ShareGroup:
    """Return the group, a new one for its first member (getOrMaybeCreateShareGroup).

    Raises:
        HeartbeatRefused: GROUP_ID_NOT_FOUND; also of a group of another type.
    """
    group = shard.share_groups.get(group_id)
    if group is not None:
        return group
    other = group_id in shard.groups or group_id in shard.consumer_groups
    refuse_if(other or not joins, Errors.GROUP_ID_NOT_FOUND)
    return ShareGroup(group_id)


def _check_member_epoch(member: ShareGroupMember, epoch: int) -> None:
    """Check the epoch of a heartbeat: the one before the present is good, too, as its answer may be
    lost (throwIfShareGroupMemberEpochIsInvalid).

    Raises:
        HeartbeatRefused: FENCED_MEMBER_EPOCH; the member joins again.
    """
    lost = epoch < member.member_epoch and epoch == member.previous_member_epoch
    refuse_if(epoch != member.member_epoch and not lost, Errors.FENCED_MEMBER_EPOCH)


def _told(member: ShareGroupMember, request: ShareGroupHeartbeatRequest) -> ShareGroupMember:
    """Return a member with what its heartbeat tells of it."""
    topics = request.subscribed_topic_names
    return replace(
        member,
        rack_id=member.rack_id if request.rack_id is None else request.rack_id,
        topics=member.topics if topics is None else tuple(sorted(dict.fromkeys(topics))),
        client_id=request.client_id,
    )
