"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups.

Kafka: GroupMetadataManager.classicGroupJoin, classicGroupSync, classicGroupHeartbeat,
classicGroupLeave. A join is parked in its member until the join phase ends, a sync until the
group's record is committed. Every client speaks the newest version of these requests: a dynamic
member gets its id by MEMBER_ID_REQUIRED (KIP-394), and a static leader may skip the
assignment (KIP-814). Static members are in static.py.
"""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState, ClassicMember
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.classic.responses import join_error, joined, sync_error, synced
from kafkasim.model.group.classic.static import StaticMembers, update_member
from kafkasim.model.group.records import group_record
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import (
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    LeaveGroupRequest,
    LeaveGroupResponse,
    SyncGroupRequest,
)
from kafkasim.model.records import TopicPartition


class ClassicMembership:
    """Serves the membership requests of the classic groups of an active shard."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        rebalance: ClassicRebalance,
        config: BrokerConfig,
        ids: random.Random,
        new_coordinator: bool,
    ) -> None:
        """``ids`` draws the random part of member ids."""
        self.runtime = runtime
        self.rebalance = rebalance
        self.static = StaticMembers(runtime, rebalance, new_coordinator)
        self.config = config
        self.rules = rebalance.rules
        self.new_coordinator = new_coordinator  # not the Scala coordinator of ZooKeeper mode
        self._ids = ids

    # JoinGroup

    def on_join(
        self, shard: GroupShard, parked: Parked, request: JoinGroupRequest, now: int
    ) -> None:
        """Serve a join; the checks come in Kafka's order."""
        config = self.config
        low, high = config.group_min_session_timeout_ms, config.group_max_session_timeout_ms
        if not low <= request.session_timeout_ms <= high:
            self._refuse(parked, Errors.INVALID_SESSION_TIMEOUT, request.member_id)
            return
        group = shard.groups.get(request.group_id)
        if group is None:
            if request.member_id:
                self._refuse(parked, Errors.UNKNOWN_MEMBER_ID, request.member_id)
                return
            group = ClassicGroup(request.group_id, self.runtime.wall_ms(now))
            error = self.rebalance.append_group(shard, group, {}, now)
            if error is not Errors.NONE:
                self._refuse(parked, client_error(error), "")
                return
            shard.put_classic(group)
        if not self._has_room(group, request.member_id):
            self.rebalance.forget(group, request.member_id)
            self._refuse(parked, Errors.GROUP_MAX_SIZE_REACHED, "")
        elif group.state is ClassicGroupState.DEAD:
            self._refuse(parked, Errors.COORDINATOR_NOT_AVAILABLE, request.member_id)
        elif not group.supports(request.protocol_type, request.protocols):
            self._refuse(parked, Errors.INCONSISTENT_GROUP_PROTOCOL, request.member_id)
        elif request.member_id:
            self._join_known(shard, group, parked, request, now)
        else:
            self._join_unknown(shard, group, parked, request, now)

    def keeps_timeouts(self, shard: GroupShard, request: Any) -> ClassicMember | None:
        """Return the member whose timeouts stand, whatever a JoinGroup says; None if they do not.

        See :meth:`GroupRules.updates_timeouts`.
        """
        group = shard.groups.get(request.group_id)
        if self.rules.updates_timeouts() or type(request) is not JoinGroupRequest or group is None:
            return None
        instance_id = request.group_instance_id
        known = None if instance_id is None else group.static_members.get(instance_id)
        return group.members.get(request.member_id or known or "")

    def _has_room(self, group: ClassicGroup, member_id: str) -> bool:
        limit = self.config.group_max_size
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            member = group.members.get(member_id)
            waits = member is not None and member.awaiting_join is not None
            return waits or group.awaiting_join_count < limit
        if group.state in (ClassicGroupState.COMPLETING_REBALANCE, ClassicGroupState.STABLE):
            return member_id in group.members or len(group.members) < limit
        return True

    def _join_unknown(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        parked: Parked,
        request: JoinGroupRequest,
        now: int,
    ) -> None:
        instance_id = request.group_instance_id
        new_id = f"{instance_id or request.client_id}-{self._ids.getrandbits(64):016x}"
        if instance_id is None:
            self.rebalance.add_pending(shard, group, new_id, request.session_timeout_ms, now)
            self._refuse(parked, Errors.MEMBER_ID_REQUIRED, new_id)
            return
        known = group.static_members.get(instance_id)
        if known is not None and self.rules.replaces_static_member(group.state):
            old = group.members[known]
            self.static.replace(shard, group, old, new_id, parked, request, now)
        else:
            if known is not None:  # only a variant keeps the old member beside the new one
                group.release_instance(instance_id)
            self._add(shard, group, new_id, parked, request, now)

    def _join_known(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        parked: Parked,
        request: JoinGroupRequest,
        now: int,
    ) -> None:
        member_id = request.member_id
        if member_id in group.pending_join:
            self._add(shard, group, member_id, parked, request, now)
            return
        error = self._validate(group, member_id, request.group_instance_id, now)
        if error is not Errors.NONE:
            self._refuse(parked, error, member_id)
            return
        member = group.members[member_id]
        same = member.protocols == request.protocols
        if group.state is ClassicGroupState.EMPTY:
            self._refuse(parked, Errors.UNKNOWN_MEMBER_ID, member_id)
        elif group.state is ClassicGroupState.COMPLETING_REBALANCE and same:
            # The first answer was lost: send the current generation again.
            self.runtime.respond(parked, joined(group, member))
        elif group.state is ClassicGroupState.STABLE and not self.rebalance.rules.rejoin_rebalances(
            group.leader == member_id, same
        ):
            self.runtime.respond(parked, joined(group, member))
        else:
            # In Stable the leader rejoins when topic metadata has changed, to have a rebalance.
            stable = group.state is ClassicGroupState.STABLE
            changed = not (stable and same) or group.leader == member_id
            update_member(group, member, request, parked, self.rules)
            reason = f"{member_id} rejoins: {request.reason}"
            self.rebalance.prepare_or_complete(shard, group, reason, now, changed)

    def _add(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        member_id: str,
        parked: Parked,
        request: JoinGroupRequest,
        now: int,
    ) -> None:
        member = ClassicMember(
            member_id,
            request.group_instance_id,
            request.client_id,
            request.rebalance_timeout_ms,
            request.session_timeout_ms,
            request.protocols,
        )
        self.rebalance.add_member(shard, group, member, request.protocol_type, parked, now)
        reason = f"{member_id} joins: {request.reason}"
        self.rebalance.prepare_or_complete(shard, group, reason, now)

    def _validate(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, now: int
    ) -> Errors:
        """Return what is wrong with a member, and tell who has its instance id if that is it."""
        error = group.validate_member(member_id, instance_id)
        self.rebalance.trace.record_fenced(group, member_id, instance_id, error, now)
        return error

    def _refuse(self, parked: Parked, error: Errors, member_id: str) -> None:
        self.runtime.respond(parked, join_error(error, member_id))

    # SyncGroup

    def on_sync(
        self, shard: GroupShard, parked: Parked, request: SyncGroupRequest, now: int
    ) -> None:
        """Serve a sync: park it; if it is the leader's, append the assignments that it has."""
        group = shard.groups.get(request.group_id)
        error = _check_sync(group, request)
        if error is not Errors.NONE:
            if group is not None:
                place = (request.member_id, request.group_instance_id)
                self.rebalance.trace.record_fenced(group, *place, error, now)
            self.runtime.respond(parked, sync_error(error))
            return
        assert group is not None, request
        member = group.members[request.member_id]
        if group.sync_arrived(request.member_id):
            self.runtime.cancel(("group-sync", group.group_id))
        if group.state is ClassicGroupState.STABLE:
            self.runtime.respond(parked, synced(group, member))
            return
        assert group.state is ClassicGroupState.COMPLETING_REBALANCE, (group.group_id, group.state)
        member.park_sync(parked)
        if group.leader == request.member_id:
            given = dict(request.assignments)
            assignments = {member_id: given.get(member_id, ()) for member_id in group.members}
            argument = (shard, group, group.generation, assignments)
            error = self.rebalance.append_group(shard, group, assignments, now)
            if error is Errors.NONE:
                self.runtime.defer(shard.context, self._on_assignment_written, argument, now)
            else:
                self._on_assignment_written(argument, error, now)

    def _on_assignment_written(
        self,
        argument: tuple[GroupShard, ClassicGroup, int, dict[str, tuple[TopicPartition, ...]]],
        error: Errors,
        now: int,
    ) -> None:
        shard, group, generation, assignments = argument
        if (
            group.state is not ClassicGroupState.COMPLETING_REBALANCE
            or group.generation != generation
        ):
            return  # a rebalance began since then: these assignments are void
        if shard.groups.get(group.group_id) is not group:
            return  # it became a consumer group since then, which answered the parked syncs
        if not shard.context.is_active:
            return  # this broker resigned: on_unloaded answers the parked syncs
        if error is Errors.NONE:
            self.rebalance.transition(group, ClassicGroupState.STABLE, "assignment stored", now)
            self.rebalance.set_assignment(shard, group, assignments, now)
            self.rebalance.trace.record_assigned(group)
        else:
            error = self.rules.assignment_append_error(error, self.new_coordinator)
            self.rebalance.reset_assignment(shard, group, error, now)
            reason = f"{error.name} when storing the assignment"
            self.rebalance.prepare_or_complete(shard, group, reason, now)

    # Heartbeat, LeaveGroup

    def on_heartbeat(
        self, shard: GroupShard, parked: Parked, request: HeartbeatRequest, now: int
    ) -> None:
        """Serve a heartbeat: the session starts anew, in every state that has members."""
        group = shard.groups.get(request.group_id)
        error = Errors.UNKNOWN_MEMBER_ID
        if group is not None:
            error = self._validate(group, request.member_id, request.group_instance_id, now)
            if group.state is ClassicGroupState.DEAD:
                error = Errors.COORDINATOR_NOT_AVAILABLE
            elif error is Errors.NONE and request.generation_id != group.generation:
                error = Errors.ILLEGAL_GENERATION
            elif error is Errors.NONE:
                member = group.members[request.member_id]
                member.heard_us = now
                if self.rebalance.rules.heartbeat_renews_session(group.state):
                    self.rebalance.arm_session(shard, group, member, now)
                if group.state is ClassicGroupState.PREPARING_REBALANCE:
                    error = Errors.REBALANCE_IN_PROGRESS
        self.runtime.respond(parked, HeartbeatResponse(error))

    def on_leave(
        self, shard: GroupShard, parked: Parked, request: LeaveGroupRequest, now: int
    ) -> None:
        """Serve a leave: remove members by member id, or by instance id as operators do."""
        group = shard.groups.get(request.group_id)
        if group is None:  # GroupCoordinatorService.leaveGroup; handleLeaveGroup of the Scala one
            unknown = Errors.UNKNOWN_MEMBER_ID
            strangers = tuple(
                [(member, instance, unknown) for member, instance, _ in request.members]
            )
            self.runtime.respond(parked, LeaveGroupResponse(Errors.NONE, strangers))
            return
        if group.state is ClassicGroupState.DEAD:
            answer = LeaveGroupResponse(Errors.COORDINATOR_NOT_AVAILABLE, ())
            self.runtime.respond(parked, answer)
            return
        results = []
        for member_id, instance_id, _ in request.members:
            error = self._leave(group, member_id, instance_id, now)
            results.append((member_id, instance_id, error))
        left = [result[0] or result[1] for result in results if result[2] is Errors.NONE]
        if left:
            reason = f"{', '.join(map(str, left))} left: {request.members[0][2]}"
            self.rebalance.rebalance_without(shard, group, reason, now)
        answer = LeaveGroupResponse(Errors.NONE, tuple(results))
        self.runtime.defer(shard.context, self._on_left, (parked, answer), now)

    def _leave(
        self, group: ClassicGroup, member_id: str, instance_id: str | None, now: int
    ) -> Errors:
        if not member_id:
            known = group.static_members.get(instance_id or "")
            if known is None:
                return Errors.UNKNOWN_MEMBER_ID
            member_id = known
        elif member_id not in group.pending_join:
            error = self._validate(group, member_id, instance_id, now)
            if error is not Errors.NONE:
                return error
        member = group.members.get(member_id)
        if member is not None and member.awaiting_join is not None:
            self._refuse(member.awaiting_join, Errors.UNKNOWN_MEMBER_ID, "")
        self.rebalance.forget(group, member_id)
        return Errors.NONE

    def _on_left(
        self, argument: tuple[Parked, LeaveGroupResponse], error: Errors, now: int
    ) -> None:
        parked, answer = argument
        if error is not Errors.NONE:
            answer = LeaveGroupResponse(client_error(error), ())
        self.runtime.respond(parked, answer)

    # Loading, resigning, deleting

    def on_loaded(self, shard: GroupShard, now: int) -> None:
        """Let the sessions of all members start anew.

        A rebalance that was in progress is forgotten: its members get errors and join again.
        """
        for group in shard.groups.values():
            if group.protocol_type is None:
                continue
            self.rebalance.trace.record_state(group, "loaded")
            found = [(each.member_id, each.assignment) for each in group.members.values()]
            loaded = (group, group.generation, found)
            self.runtime.defer(shard.context, self._on_loaded_committed, loaded, now)
            for member in group.members.values():
                self.rebalance.arm_session(shard, group, member, now)
            if len(group.members) > self.config.group_max_size:
                self.rebalance.prepare(shard, group, "the group is over group.max.size", now)

    def _on_loaded_committed(
        self,
        loaded: tuple[ClassicGroup, int, list[tuple[str, tuple[TopicPartition, ...]]]],
        error: Errors,
        _now: int,
    ) -> None:
        """Write who owns what by the record that was loaded, once it is committed.

        Until then another leader's log may replace it. A static member that has come back meanwhile
        has its new id by a later record.
        """
        group, generation, found = loaded
        if error is Errors.NONE and group.generation == generation:
            for member_id, assignment in found:
                self.rebalance.trace.record_assignment(group, member_id, assignment)

    def on_unloaded(self, shard: GroupShard) -> None:
        """Answer all parked joins and syncs with NOT_COORDINATOR; cancel the groups' timers."""
        for group in shard.groups.values():
            self.rebalance.cancel_timers(group)
            for member in group.members.values():
                if member.awaiting_join is not None:
                    self._refuse(member.awaiting_join, Errors.NOT_COORDINATOR, member.member_id)
                if member.awaiting_sync is not None:
                    answer = sync_error(Errors.NOT_COORDINATOR)
                    self.runtime.respond(member.awaiting_sync, answer)

    def delete_if_empty(self, shard: GroupShard, group: ClassicGroup, now: int) -> None:
        """Delete a group that has lost its last offset, if it is empty (maybeDeleteGroup)."""
        if group.state is ClassicGroupState.EMPTY:
            self.delete(shard, group, "expired", now)

    def delete(self, shard: GroupShard, group: ClassicGroup, reason: str, now: int) -> Errors:
        """Append the tombstone of an empty group, and forget the group."""
        wall_ms = self.runtime.wall_ms(now)
        tombstone = group_record(group.group_id, None, 0, wall_ms)
        error = self.runtime.append(shard.context, (tombstone,), now)
        if error is Errors.NONE:
            shard.remove_classic(group.group_id)
            self.rebalance.cancel_timers(group)
            self.rebalance.trace.record_dead(group, reason)
        return error


def _check_sync(group: ClassicGroup | None, request: SyncGroupRequest) -> Errors:
    if group is None:
        return Errors.UNKNOWN_MEMBER_ID
    if group.state is ClassicGroupState.DEAD:
        return Errors.COORDINATOR_NOT_AVAILABLE
    error = group.validate_member(request.member_id, request.group_instance_id)
    if error is not Errors.NONE:
        return error
    if request.generation_id != group.generation:
        return Errors.ILLEGAL_GENERATION
    if request.protocol_type is not None and request.protocol_type != group.protocol_type:
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    if request.protocol_name is not None and request.protocol_name != group.protocol:
        return Errors.INCONSISTENT_GROUP_PROTOCOL
    if group.state is ClassicGroupState.PREPARING_REBALANCE:
        return Errors.REBALANCE_IN_PROGRESS
    return Errors.NONE
