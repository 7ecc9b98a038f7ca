"""Static members (KIP-345): a client that comes back takes its old place under a new member id.

Kafka: GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin and its callbacks.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.facts import HoleEntered
from kafkasim.model.group.classic.group import (
    ClassicGroup,
    ClassicGroupState,
    ClassicMember,
    Protocols,
)
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.classic.responses import join_error, joined, sync_error
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import JoinGroupRequest

Before = tuple[int, int, Protocols]  # rebalance timeout, session timeout, protocols


class StaticMembers:
    """Replaces static members that come back under a new member id."""

    def __init__(
        self, runtime: CoordinatorRuntime, rebalance: ClassicRebalance, new_coordinator: bool
    ) -> None:
        self.runtime = runtime
        self.rebalance = rebalance
        self.rules = rebalance.rules
        self._takes_protocols_back = self.rules.takes_protocols_back(new_coordinator)

    def replace(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        old: ClassicMember,
        new_id: str,
        parked: Parked,
        request: JoinGroupRequest,
        now: int,
    ) -> None:
        """Give a static member's place to a new member id; the old id is fenced.

        In Stable no rebalance is needed if the group keeps its protocol: the client gets the
        assignment that it had.
        """
        protocols = old.protocols if self._takes_protocols_back else request.protocols
        before = (old.rebalance_timeout_ms, old.session_timeout_ms, protocols)
        member = self._swap(shard, group, old, new_id, now)
        update_member(group, member, request, parked, self.rules)
        if group.state is ClassicGroupState.STABLE:
            if group.select_protocol() == group.protocol:
                self._persist_swap(shard, group, old, member, before, now)
            else:
                reason = f"static member {request.group_instance_id} changes the protocol"
                self.rebalance.prepare_or_complete(shard, group, reason, now)
        elif self.rules.static_rejoin_rebalances(group.state):
            self.rebalance.prepare(
                shard, group, f"static member {request.group_instance_id} came back", now
            )
        elif group.state is ClassicGroupState.COMPLETING_REBALANCE:  # only under a variant (B69)
            self.rebalance.answer_join(group, member)
        else:
            assert group.state is ClassicGroupState.PREPARING_REBALANCE, (
                group.group_id,
                group.state,
            )
            self.rebalance.complete_if_joined(shard, group, now)

    def _swap(
        self, shard: GroupShard, group: ClassicGroup, old: ClassicMember, new_id: str, now: int
    ) -> ClassicMember:
        """Move a static member to ``new_id``; requests parked under the old id are fenced."""
        join, sync = old.awaiting_join, old.take_sync()
        if join is not None:
            self.runtime.respond(join, join_error(Errors.FENCED_INSTANCE_ID, old.member_id))
        if sync is not None:
            self.runtime.respond(sync, sync_error(Errors.FENCED_INSTANCE_ID))
        self.runtime.cancel(("group-session", group.group_id, old.member_id))
        member = group.replace_static_member(old, new_id)
        self.rebalance.arm_session(shard, group, member, now)
        if join is not None or sync is not None:
            told = (old.member_id, old.instance_id, Errors.FENCED_INSTANCE_ID)
            self.rebalance.trace.record_fenced(group, *told, now)
        return member

    def _persist_swap(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        old: ClassicMember,
        member: ClassicMember,
        before: Before,
        now: int,
    ) -> None:
        """Answer the join once a record with the new member id is committed (KAFKA-10284)."""
        argument = (shard, group, old.member_id, member, before)
        if not self.rules.persists_static_replacement():
            self._on_swap_written(argument, Errors.NONE, now)
            return
        assignments = {m.member_id: m.assignment for m in group.members.values()}
        error = self.rebalance.append_group(shard, group, assignments, now)
        if error is Errors.NONE:
            self.runtime.defer(shard.context, self._on_swap_written, argument, now)
        else:
            self._on_swap_written(argument, error, now)

    def _on_swap_written(
        self,
        argument: tuple[GroupShard, ClassicGroup, str, ClassicMember, Before],
        error: Errors,
        now: int,
    ) -> None:
        """Tell of the new id and answer the join, or give the old id back.

        The group may have become a consumer group since then, which answered the join. Its members
        have the new id, and it is not touched; only who owned what by the record is told.
        """
        shard, group, old_id, member, before = argument
        is_classic = shard.groups.get(group.group_id) is group
        if error is Errors.NONE:
            if group.state is not ClassicGroupState.STABLE:
                return  # a rebalance began; its end answers the join
            if is_classic:
                self.rebalance.trace.record_state(group, f"{member.member_id} replaced {old_id}")
            self.rebalance.trace.record_replaced(group, old_id, member)
            self._answer_swapped(group, old_id, member)
            return
        parked = member.awaiting_join
        if parked is not None:
            group.park_join(member, None)
            self.runtime.respond(parked, join_error(client_error(error), ""))
        is_member = group.members.get(member.member_id) is member
        if is_classic and is_member and shard.context.is_active:
            member.update(*before)
            old = self._swap(shard, group, member, old_id, now)
            self.rebalance.trace.record_reverted(group, old, member.member_id, error)

    def _answer_swapped(self, group: ClassicGroup, old_id: str, member: ClassicMember) -> None:
        """Answer the join of a member that came back in a Stable group; it must not assign."""
        parked = member.awaiting_join
        if parked is None:
            return
        group.park_join(member, None)
        hole = HoleEntered("static-member-returned", group=group.group_id)
        self.rebalance.trace.record_hole(hole)
        answer = joined(group, member, skip_assignment=group.leader == member.member_id)
        if answer.skip_assignment and not self.rules.skips_assignment_of_returning_leader():
            answer = replace(answer, leader=old_id, skip_assignment=False, members=())
        self.runtime.respond(parked, answer)


def update_member(
    group: ClassicGroup,
    member: ClassicMember,
    request: JoinGroupRequest,
    parked: Parked,
    rules: GroupRules,
) -> None:
    """Store the timeouts and protocols of a JoinGroup in its member, and park it."""
    told = (request.rebalance_timeout_ms, request.session_timeout_ms)
    if not rules.updates_timeouts():
        told = (member.rebalance_timeout_ms, member.session_timeout_ms)
    member.update(*told, request.protocols)
    group.park_join(member, parked)
