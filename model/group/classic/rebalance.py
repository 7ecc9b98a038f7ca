"""The rebalance of a classic group: join phase, generations, sessions, removal of members.

Kafka: the methods of GroupMetadataManager that requests and timers share (prepareRebalance,
completeClassicGroupJoin, expirePendingSync, expireClassicGroupMemberHeartbeat). A group's timers:

    group-join      the initial delay of a new group, or the rebalance timeout of the join phase
    group-sync      the members of the new generation have this long to send SyncGroup
    group-session   one for each member and for each handed-out member id
"""

from __future__ import annotations

from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState, ClassicMember
from kafkasim.model.group.classic.responses import join_error, joined, sync_error, synced
from kafkasim.model.group.classic.trace import GroupTrace
from kafkasim.model.group.records import group_record
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.records import TopicPartition

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000
"""The session of a member before its first generation (classicGroupNewMemberJoinTimeoutMs)."""


class ClassicRebalance:
    """Moves classic groups through their rebalances, and ends sessions."""

    def __init__(
        self, runtime: CoordinatorRuntime, rules: GroupRules, trace: GroupTrace, delay_ms: int
    ) -> None:
        """``delay_ms`` is group.initial.rebalance.delay.ms."""
        self.runtime = runtime
        self.rules = rules
        self.trace = trace
        self.initial_delay_ms = delay_ms

    def transition(
        self, group: ClassicGroup, state: ClassicGroupState, reason: str, now: int
    ) -> None:
        """Change a group's state, and write it to the trace."""
        group.transition_to(state, self.runtime.wall_ms(now))
        self.trace.record_state(group, reason)

    def _begin(self, group: ClassicGroup, reason: str, now: int, changed: bool) -> None:
        """Enter the join phase, and write what it was decided on."""
        group.transition_to(ClassicGroupState.PREPARING_REBALANCE, self.runtime.wall_ms(now))
        group.departed.clear()
        timeout_ms = group.rebalance_timeout_ms
        wait_us = self.rules.join_timeout_ms(timeout_ms) * 1000
        self.trace.record_state(group, reason, wait_us, timeout_ms * 1000, changed)

    # The join phase

    def prepare_or_complete(
        self, shard: GroupShard, group: ClassicGroup, reason: str, now: int, changed: bool = True
    ) -> None:
        """Start a rebalance if the state allows it, else end the join phase if all have joined.

        ``changed`` is told in the trace (:class:`GroupState`).
        """
        if group.can_rebalance:
            self.prepare(shard, group, reason, now, changed)
        else:
            self.complete_if_joined(shard, group, now)

    def prepare(
        self, shard: GroupShard, group: ClassicGroup, reason: str, now: int, changed: bool = True
    ) -> None:
        """Start a rebalance: every member must join again (prepareRebalance)."""
        if group.state is ClassicGroupState.COMPLETING_REBALANCE:
            self.reset_assignment(shard, group, Errors.REBALANCE_IN_PROGRESS, now)
        self.runtime.cancel(("group-sync", group.group_id))
        initial = group.state is ClassicGroupState.EMPTY
        self._begin(group, reason, now, changed)
        if initial:
            remaining_ms = max(group.rebalance_timeout_ms - self.initial_delay_ms, 0)
            self._delay_initial(shard, group, self.initial_delay_ms, remaining_ms, now)
        elif group.all_joined:
            self.complete_join(shard, group, now)
        else:
            self._arm_join(shard, group, now)

    def complete_if_joined(self, shard: GroupShard, group: ClassicGroup, now: int) -> None:
        """End the join phase if all have joined; the initial delay of a new group runs on."""
        if (
            group.state is ClassicGroupState.PREPARING_REBALANCE
            and group.previous_state is not ClassicGroupState.EMPTY
            and group.all_joined
        ):
            self.complete_join(shard, group, now)

    def complete_join(self, shard: GroupShard, group: ClassicGroup, now: int) -> None:
        """End the join phase (completeClassicGroupJoin).

        Dynamic members that have not joined leave the group. The others are the next generation.
        """
        assert group.state is ClassicGroupState.PREPARING_REBALANCE, (group.group_id, group.state)
        self.runtime.cancel(("group-join", group.group_id))
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                self.forget(group, member.member_id)
                group.departed.append(f"{member.member_id} did not rejoin in time")
        if not group.elect_joined_leader() and group.members:
            # Static members without a join are left: wait for them, or until their sessions end.
            self._arm_join(shard, group, now)
            return
        group.next_generation(self.runtime.wall_ms(now))
        reason = "; ".join(group.departed) or ("" if group.members else "no members")
        self.trace.record_state(group, reason or "all members joined")
        if not group.members:
            # If the append fails, a failover brings the previous generation back, and its members'
            # sessions expire there.
            self.append_group(shard, group, {}, now)
            return
        for member in group.members.values():
            self.answer_join(group, member)
            self.arm_session(shard, group, member, now)
            group.await_sync(member)
        self._await_syncs(shard, group, now)

    def _await_syncs(self, shard: GroupShard, group: ClassicGroup, now: int) -> None:
        """Give the members of the new generation their rebalance timeout to send SyncGroup."""
        generation = group.generation
        self.runtime.arm(
            shard.context,
            ("group-sync", group.group_id),
            now + group.rebalance_timeout_ms * 1000,
            lambda at: self._expire_sync(shard, group, generation, at),
        )

    def append_group(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        assignments: dict[str, tuple[TopicPartition, ...]],
        now: int,
    ) -> Errors:
        """Append the group's record with these assignments; on an error nothing has changed."""
        wall_ms = self.runtime.wall_ms(now)
        value = group.to_record(assignments, wall_ms)
        return self.runtime.append(
            shard.context, (group_record(group.group_id, value, 0, wall_ms),), now
        )

    def _arm_join(self, shard: GroupShard, group: ClassicGroup, now: int) -> None:
        self.runtime.arm(
            shard.context,
            ("group-join", group.group_id),
            now + self.rules.join_timeout_ms(group.rebalance_timeout_ms) * 1000,
            lambda at: self.complete_join(shard, group, at),
        )

    def _delay_initial(
        self, shard: GroupShard, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: int
    ) -> None:
        """Wait for the first members; while new ones arrive, wait again (InitialDelayedJoin).

        All waits together last for the rebalance timeout at most.
        """

        def on_delay(at: int) -> None:
            if remaining_ms != 0 and group.take_new_member_added():
                next_ms = min(self.initial_delay_ms, remaining_ms)
                left_ms = max(remaining_ms - delay_ms, 0)
                self._delay_initial(shard, group, next_ms, left_ms, at)
            else:
                self.complete_join(shard, group, at)

        key = ("group-join", group.group_id)
        self.runtime.arm(shard.context, key, now + delay_ms * 1000, on_delay)

    # Members

    def add_member(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        member: ClassicMember,
        protocol_type: str,
        parked: Parked,
        now: int,
    ) -> None:
        """Add a member whose join is parked.

        Its session is five minutes at first: it sends no heartbeat before its join is answered.
        """
        group.add(member, protocol_type, parked)
        self._arm_member(shard, group, member, NEW_MEMBER_JOIN_TIMEOUT_MS, now)

    def remove_member(
        self, shard: GroupShard, group: ClassicGroup, member: ClassicMember, reason: str, now: int
    ) -> None:
        """Remove a member whose session has expired, and rebalance."""
        parked = member.awaiting_join
        if parked is not None:
            self.runtime.respond(parked, join_error(Errors.UNKNOWN_MEMBER_ID, ""))
        self.forget(group, member.member_id)
        self.rebalance_without(shard, group, reason, now)

    def rebalance_without(
        self, shard: GroupShard, group: ClassicGroup, reason: str, now: int
    ) -> None:
        """Rebalance after members were removed, or let the join phase end."""
        if group.state in (ClassicGroupState.STABLE, ClassicGroupState.COMPLETING_REBALANCE):
            self.prepare_or_complete(shard, group, reason, now)
        elif group.state is ClassicGroupState.PREPARING_REBALANCE:
            group.departed.append(reason)
            self.complete_if_joined(shard, group, now)

    def add_pending(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        member_id: str,
        session_timeout_ms: int,
        now: int,
    ) -> None:
        """Remember a handed-out member id (KIP-394); a rebalance waits for it for one session."""
        group.hand_out(member_id)
        self.runtime.arm(
            shard.context,
            ("group-session", group.group_id, member_id),
            now + session_timeout_ms * 1000,
            lambda at: self._expire_session(shard, group, member_id, at),
        )

    def arm_session(
        self, shard: GroupShard, group: ClassicGroup, member: ClassicMember, now: int
    ) -> None:
        """Let the member's session start anew."""
        self._arm_member(shard, group, member, member.session_timeout_ms, now)

    def cancel_timers(self, group: ClassicGroup) -> None:
        """Cancel all timers of a group."""
        self.runtime.cancel(("group-join", group.group_id))
        self.runtime.cancel(("group-sync", group.group_id))
        for member_id in [*group.members, *group.pending_join]:
            self.runtime.cancel(("group-session", group.group_id, member_id))

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or a handed-out id, and its session timer."""
        group.remove(member_id)
        self.runtime.cancel(("group-session", group.group_id, member_id))

    def _arm_member(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        member: ClassicMember,
        timeout_ms: int,
        now: int,
    ) -> None:
        expire = member.expire
        if expire is None:
            member_id = member.member_id
            expire = member.expire = lambda at: self._expire_session(shard, group, member_id, at)
        key = ("group-session", group.group_id, member.member_id)
        member.heard_us, member.session_us = now, timeout_ms * 1000
        self.runtime.arm(shard.context, key, now + timeout_ms * 1000, expire)

    def _expire_session(
        self, shard: GroupShard, group: ClassicGroup, member_id: str, now: int
    ) -> None:
        if group.state is ClassicGroupState.DEAD:
            return
        if member_id in group.pending_join:
            self.forget(group, member_id)
            self.complete_if_joined(shard, group, now)
            return
        member = group.members.get(member_id)
        if member is not None and self.rules.session_expires(
            member.is_new, member.awaiting_join is not None, member.awaiting_sync is not None
        ):
            self.trace.record_expired(group, member, now)
            self.remove_member(shard, group, member, f"session of {member_id} expired", now)

    def _expire_sync(
        self, shard: GroupShard, group: ClassicGroup, generation: int, now: int
    ) -> None:
        """Remove the members of this generation that have sent no SyncGroup (expirePendingSync)."""
        assert generation == group.generation, (group.group_id, generation, group.generation)
        missing = list(group.pending_sync)
        if missing and group.state in (
            ClassicGroupState.COMPLETING_REBALANCE,
            ClassicGroupState.STABLE,
        ):
            for member_id in missing:
                self.forget(group, member_id)
            self.prepare(shard, group, f"no SyncGroup from {', '.join(missing)}", now)

    # Answers to parked requests

    def answer_join(self, group: ClassicGroup, member: ClassicMember) -> None:
        """Answer a member's parked join, if it has one, with the current generation."""
        parked = member.awaiting_join
        if parked is not None:
            group.park_join(member, None)
            self.runtime.respond(parked, joined(group, member))

    def resume(self, shard: GroupShard, group: ClassicGroup, now: int) -> None:
        """Arm the timers of a group that is again what it was before a failed write."""
        for member in group.members.values():
            self.arm_session(shard, group, member, now)
        if group.state is ClassicGroupState.PREPARING_REBALANCE:
            self._arm_join(shard, group, now)
        elif group.pending_sync:
            self._await_syncs(shard, group, now)

    def fail_parked(self, group: ClassicGroup, error: Errors) -> None:
        """Answer all parked joins and syncs of a group with an error."""
        for member in group.members.values():
            parked = member.awaiting_join
            if parked is not None:
                group.park_join(member, None)
                self.runtime.respond(parked, join_error(error, member.member_id))
            parked = member.take_sync()
            if parked is not None:
                self.runtime.respond(parked, sync_error(error))

    def set_assignment(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        assignments: dict[str, tuple[TopicPartition, ...]],
        now: int,
    ) -> None:
        """Give every member its assignment, and answer the parked syncs.

        The sessions of the members that get an answer start anew.
        """
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, ())
            parked = member.take_sync()
            if parked is not None:
                self.runtime.respond(parked, synced(group, member))
                self.arm_session(shard, group, member, now)

    def reset_assignment(
        self, shard: GroupShard, group: ClassicGroup, error: Errors, now: int
    ) -> None:
        """Take all assignments back, and answer the parked syncs with an error.

        The sessions of the members that get an answer start anew.
        """
        for member in group.members.values():
            member.assignment = ()
            parked = member.take_sync()
            if parked is not None:
                self.runtime.respond(parked, sync_error(error))
                self.arm_session(shard, group, member, now)
