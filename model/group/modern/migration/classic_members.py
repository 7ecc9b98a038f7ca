"""Classic members of a consumer group: their requests, mapped to the consumer protocol (KIP-848).

    JoinGroup   the member's subscription and what it owns: one step towards its target assignment;
                the generation that it gets is its member epoch, and nobody leads
    SyncGroup   what the member owns now
    Heartbeat   REBALANCE_IN_PROGRESS when the member can take a step: it has to join again
    LeaveGroup  the member is gone; the group may become a classic one

So nobody waits for anybody else: a join is answered when its own records are committed. A member
that owes a join or a sync has its rebalance timeout for it, from a timer of its own.

Kafka: the methods of GroupMetadataManager named classicGroup…ToConsumerGroup.
"""

from __future__ import annotations

import random
from dataclasses import replace

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.facts import HoleEntered
from kafkasim.model.group.classic.responses import join_error, sync_error
from kafkasim.model.group.modern.checks import (
    HeartbeatRefused,
    check_size,
    known_member,
    known_static_member,
    refuse_if,
)
from kafkasim.model.group.modern.departures import Departures
from kafkasim.model.group.modern.log.records import member_entry
from kafkasim.model.group.modern.log.writer import Change, ConsumerGroupWriter
from kafkasim.model.group.modern.migration.conversion import DOWNGRADES, with_ids, with_names
from kafkasim.model.group.modern.state.consumer_group import CONSUMER, ConsumerGroup
from kafkasim.model.group.modern.state.member import (
    ClassicMemberMetadata,
    ConsumerGroupMember,
    MemberState,
)
from kafkasim.model.group.modern.steps import MemberSteps
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
    SyncGroupResponse,
)
from kafkasim.model.values import random_uuid


class ClassicMembers:
    """Serves the classic protocol to consumer groups that have members."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        writer: ConsumerGroupWriter,
        departures: Departures,
        steps: MemberSteps,
        ids: random.Random,
    ) -> None:
        """``ids`` draws member ids."""
        self.runtime = runtime
        self.config = config
        self.writer = writer
        self.departures = departures
        self.steps = steps
        self._ids = ids

    # JoinGroup

    def on_join(
        self, shard: GroupShard, parked: Parked, request: JoinGroupRequest, now: int
    ) -> None:
        """Serve a join; it is answered when what it has changed is committed."""
        low, high = (
            self.config.group_min_session_timeout_ms,
            self.config.group_max_session_timeout_ms,
        )
        if not low <= request.session_timeout_ms <= high:
            answer = join_error(Errors.INVALID_SESSION_TIMEOUT, request.member_id)
            self.runtime.respond(parked, answer)
            return
        group = shard.consumer_groups[request.group_id]
        member_id = request.member_id or random_uuid(self._ids)
        change = Change()
        try:
            check_size(group, member_id, self.config.group_consumer_max_size)
            names = [name for name, _ in request.protocols]
            supported = group.supports_classic_protocols(request.protocol_type, names)
            refuse_if(not supported, Errors.INCONSISTENT_GROUP_PROTOCOL)
            if not request.member_id and request.group_instance_id is None:
                answer = join_error(Errors.MEMBER_ID_REQUIRED, member_id)
                self.runtime.respond(parked, answer)
                return
            joined = self._join(shard, group, request, member_id, change, now)
        except HeartbeatRefused as refused:
            self.runtime.respond(parked, join_error(refused.error, ""))
            return
        reason = f"{member_id} joins by the classic protocol: {request.reason}"
        error = self.writer.write(shard, group.group_id, change, reason, now)
        argument = (shard, parked, request, joined)
        if error is Errors.NONE:
            self.runtime.defer(shard.context, self._on_joined, argument, now)
        else:
            self._on_joined(argument, error, now)

    def _join(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        request: JoinGroupRequest,
        member_id: str,
        change: Change,
        now: int,
    ) -> ConsumerGroupMember:
        """Return the member after its join.

        Raises:
            HeartbeatRefused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, UNKNOWN_SERVER_ERROR,
                FENCED_MEMBER_EPOCH.
        """
        instance_id, told = request.group_instance_id, request.protocols[0][1]
        if instance_id is None:
            member = group.members.get(member_id) or ConsumerGroupMember(member_id)
        elif not request.member_id:
            member = self.steps.join_static(group, instance_id, member_id, True, change.entries)
        else:
            member = known_static_member(group, instance_id, member_id)
        updated = replace(
            member,
            instance_id=member.instance_id if instance_id is None else instance_id,
            rack_id=member.rack_id if told.rack_id is None else told.rack_id,
            rebalance_timeout_ms=request.rebalance_timeout_ms,
            topics=tuple(sorted(dict.fromkeys(told.topics))),
            client_id=request.client_id,
            classic=ClassicMemberMetadata(request.session_timeout_ms, request.protocols),
        )
        if updated != member:
            change.entries.append(member_entry(group.group_id, updated))
        owned = with_ids(told.owned_partitions, self.steps.image)
        joined = self.steps.advance(
            shard, group, member, updated, updated.topics != member.topics, owned,
            change.entries, now,
        )  # fmt: skip
        self._downgrade_if_last(shard, group, joined, change, now)
        return joined

    def _downgrade_if_last(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        joined: ConsumerGroupMember,
        change: Change,
        now: int,
    ) -> None:
        """Convert the group if this static member replaces the last one of the new protocol."""
        replaced = group.static_member(joined.instance_id)
        if replaced is None or replaced.classic is not None:
            return
        config = self.config
        policy, max_size = config.group_consumer_migration_policy, config.group_max_size
        others_are_classic = group.all_classic_without([replaced.member_id])
        if others_are_classic and policy in DOWNGRADES and len(group.members) <= max_size:
            self.departures.downgrade(shard, group, [], joined, change, now)

    def _on_joined(
        self,
        argument: tuple[GroupShard, Parked, JoinGroupRequest, ConsumerGroupMember],
        error: Errors,
        now: int,
    ) -> None:
        shard, parked, request, member = argument
        group_id, member_id = request.group_id, member.member_id
        if error is not Errors.NONE:
            group = shard.consumer_groups.get(group_id)
            if group is not None and member_id in group.members:
                hole = HoleEntered("member-without-session", group=group_id)
                self.runtime.out.append(hole)
            self.runtime.respond(parked, join_error(client_error(error), ""))
            return
        if group_id in shard.consumer_groups:
            session_ms = request.session_timeout_ms
            self.departures.arm_session(shard, group_id, member_id, now, session_ms)
            self.departures.await_sync(shard, group_id, member, now)
        protocol = request.protocols[0][0]
        answer = JoinGroupResponse(
            Errors.NONE, member.member_epoch, CONSUMER, protocol, "", False, member_id, ()
        )
        self.runtime.respond(parked, answer)

    # SyncGroup

    def on_sync(
        self, shard: GroupShard, parked: Parked, request: SyncGroupRequest, now: int
    ) -> None:
        """Serve a sync: what the member owns, once that is committed."""
        group = shard.consumer_groups[request.group_id]
        try:
            member = _classic_member(group, request)
            self._check_protocol(member, request)
            self._refuse_if_behind(shard, group, member, now)
        except HeartbeatRefused as refused:
            self.runtime.respond(parked, sync_error(refused.error))
            return
        self.runtime.defer(shard.context, self._on_synced, (shard, parked, request, member), now)

    def _check_protocol(self, member: ConsumerGroupMember, request: SyncGroupRequest) -> None:
        assert member.classic is not None, member
        protocol = member.classic.protocols[0][0]
        wrong = request.protocol_type not in (None, CONSUMER)
        wrong |= request.protocol_name not in (None, protocol)
        refuse_if(wrong, Errors.INCONSISTENT_GROUP_PROTOCOL)

    def _refuse_if_behind(
        self, shard: GroupShard, group: ConsumerGroup, member: ConsumerGroupMember, now: int
    ) -> None:
        """Have the member join again if a rebalance began after its join.

        (throwIfRebalanceInProgress) One that has to revoke first hears of it by its heartbeat.
        """
        revokes = member.state is MemberState.UNREVOKED_PARTITIONS
        if group.group_epoch > member.member_epoch and not revokes:
            self.departures.await_join(shard, group.group_id, member, now)
            raise HeartbeatRefused(Errors.REBALANCE_IN_PROGRESS)

    def _on_synced(
        self,
        argument: tuple[GroupShard, Parked, SyncGroupRequest, ConsumerGroupMember],
        error: Errors,
        now: int,
    ) -> None:
        shard, parked, request, member = argument
        if error is not Errors.NONE:
            self.runtime.respond(parked, sync_error(client_error(error)))
            return
        assert member.classic is not None, member
        session_ms = member.classic.session_timeout_ms
        self.departures.synced(request.group_id, member.member_id)
        self.departures.arm_session(shard, request.group_id, member.member_id, now, session_ms)
        assignment = with_names(member.assigned, self.steps.image)
        answer = SyncGroupResponse(
            Errors.NONE, request.protocol_type, request.protocol_name, assignment
        )
        self.runtime.respond(parked, answer)

    # Heartbeat, LeaveGroup

    def on_heartbeat(
        self, shard: GroupShard, parked: Parked, request: HeartbeatRequest, now: int
    ) -> None:
        """Serve a heartbeat; it says when the member has to join again."""
        group = shard.consumer_groups[request.group_id]
        try:
            member = _classic_member(group, request)
        except HeartbeatRefused as refused:
            self.runtime.respond(parked, HeartbeatResponse(refused.error))
            return
        assert member.classic is not None, member
        session_ms = member.classic.session_timeout_ms
        self.departures.arm_session(shard, group.group_id, member.member_id, now, session_ms)
        error = Errors.NONE
        unreleased = member.state is MemberState.UNRELEASED_PARTITIONS
        if (
            member.member_epoch < group.group_epoch
            or member.state is MemberState.UNREVOKED_PARTITIONS
            or (unreleased and not group.waits_on_unreleased(member))
        ):
            error = Errors.REBALANCE_IN_PROGRESS
            self.departures.await_join(shard, group.group_id, member, now)
        self.runtime.respond(parked, HeartbeatResponse(error))

    def on_leave(
        self, shard: GroupShard, parked: Parked, request: LeaveGroupRequest, now: int
    ) -> None:
        """Serve a leave, of members of either protocol: an operator removes both."""
        group = shard.consumer_groups[request.group_id]
        gone: dict[str, ConsumerGroupMember] = {}
        results = []
        for member_id, instance_id, _ in request.members:
            error = Errors.NONE
            try:
                member = _leaving(group, member_id, instance_id)
                gone[member.member_id] = member
            except HeartbeatRefused as refused:
                error = refused.error
            results.append((member_id, instance_id, error))
        change = Change()
        self.departures.remove(shard, group, list(gone.values()), change, now)
        reason = f"{', '.join(gone)} left by the classic protocol"
        error = self.writer.write(shard, group.group_id, change, reason, now)
        argument = (parked, LeaveGroupResponse(Errors.NONE, tuple(results)))
        if error is Errors.NONE:
            self.runtime.defer(shard.context, self._on_left, argument, now)
        else:
            self._on_left(argument, error, now)

    def _on_left(
        self, argument: tuple[Parked, LeaveGroupResponse], error: Errors, _now: int
    ) -> None:
        parked, answer = argument
        if error is not Errors.NONE:
            answer = LeaveGroupResponse(client_error(error), ())
        self.runtime.respond(parked, answer)


def _classic_member(
    group: ConsumerGroup, request: SyncGroupRequest | HeartbeatRequest
) -> ConsumerGroupMember:
    """Return the classic member that a request of its present generation is from.

    Raises:
        HeartbeatRefused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID, ILLEGAL_GENERATION.
    """
    if request.group_instance_id is None:
        member = known_member(group, request.member_id)
    else:
        member = known_static_member(group, request.group_instance_id, request.member_id)
    refuse_if(member.classic is None, Errors.UNKNOWN_MEMBER_ID)
    refuse_if(member.member_epoch != request.generation_id, Errors.ILLEGAL_GENERATION)
    return member


def _leaving(group: ConsumerGroup, member_id: str, instance_id: str | None) -> ConsumerGroupMember:
    """Return the member that a LeaveGroup names; an operator names a static one without its id.

    Raises:
        HeartbeatRefused: UNKNOWN_MEMBER_ID, FENCED_INSTANCE_ID.
    """
    if instance_id is None:
        return known_member(group, member_id)
    member = group.static_member(instance_id)
    if member is None:
        raise HeartbeatRefused(Errors.UNKNOWN_MEMBER_ID)
    refuse_if(bool(member_id) and member.member_id != member_id, Errors.FENCED_INSTANCE_ID)
    return member
