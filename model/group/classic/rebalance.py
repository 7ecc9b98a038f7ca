"""The rebalance of a classic group: join phase, generations, sessions, removal of members.

Kafka: the classicGroup… methods of GroupMetadataManager that requests and timers share
(prepareRebalance, completeClassicGroupJoin, expirePendingSync, expireClassicGroupMemberHeartbeat).
Timers of a group: ``group-join`` (initial delay or rebalance timeout), ``group-sync`` (members that
joined but have not synced), ``group-session`` per member and per handed-out id.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, Member, Parked, State
from kafkasim.model.group.records import group_record
from kafkasim.model.group.runtime.runtime import LANE, Runtime
from kafkasim.model.group.runtime.shard import Shard
from kafkasim.model.messages import JoinGroupResponse, SyncGroupResponse
from kafkasim.model.records import TopicPartition

NEW_MEMBER_JOIN_TIMEOUT_MS = 5 * 60 * 1000  # group.coordinator: classicGroupNewMemberJoinTimeoutMs


class Rebalance:
    """Moves groups through their join phases."""

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime
        self.timers = runtime.timers
        self.initial_delay_ms = runtime.config.group_initial_rebalance_delay_ms

    # Beginning and end of the join phase

    def prepare_or_complete(self, shard: Shard, group: ClassicGroup, reason: str, now: int) -> None:
        """Start a rebalance where the state allows it, else see whether the join phase is over."""
        if group.can_rebalance:
            self.prepare(shard, group, reason, now)
        else:
            self.complete_if_joined(shard, group, now)

    def prepare(self, shard: Shard, group: ClassicGroup, reason: str, now: int) -> None:
        """Start a rebalance: all members must join again."""
        if group.state is State.COMPLETING_REBALANCE:
            self.reset_assignment(group, Errors.REBALANCE_IN_PROGRESS, now)
        self.timers.cancel(("group-sync", group.group_id))
        initial = group.state is State.EMPTY
        self.runtime.transition(group, State.PREPARING_REBALANCE, reason, now)
        if initial:
            remaining_ms = max(group.rebalance_timeout_ms - self.initial_delay_ms, 0)
            self._delay_initial(shard, group, self.initial_delay_ms, remaining_ms, now)
        elif group.all_joined:
            self.complete_join(shard, group, now)
        else:
            self._arm_join(shard, group, now)

    def complete_if_joined(self, shard: Shard, group: ClassicGroup, now: int) -> None:
        """End the join phase if all have joined and no initial delay is running."""
        if (
            group.state is State.PREPARING_REBALANCE
            and group.previous_state is not State.EMPTY
            and group.all_joined
        ):
            self.complete_join(shard, group, now)

    def complete_join(self, shard: Shard, group: ClassicGroup, now: int) -> None:
        """End the join phase: who has not joined is out, the others get the next generation."""
        assert group.state is State.PREPARING_REBALANCE, (group.group_id, group.state)
        self.timers.cancel(("group-join", group.group_id))
        for member in list(group.members.values()):
            if member.awaiting_join is None and member.instance_id is None:
                self.forget(group, member.member_id)
        if not group.elect_joined_leader() and group.members:
            # Only static members that are not here: wait for them or for their sessions' end.
            self._arm_join(shard, group, now)
            return
        group.next_generation(self.runtime.process.wall_ms(now))
        self.runtime.record_state(group, "all members joined" if group.members else "no members")
        if not group.members:
            # If this fails, the previous generation comes back at a failover and times out.
            self.append_group(shard, group, {}, now)
            return
        for member in group.members.values():
            self.answer_join(group, member, Errors.NONE)
            self.arm_session(shard, group, member, now)
            member.is_new = False
            group.pending_sync[member.member_id] = None
        generation = group.generation
        self.timers.arm(
            ("group-sync", group.group_id),
            now + group.rebalance_timeout_ms * 1000,
            LANE,
            lambda at: self._expire_sync(shard, group, generation, at),
        )

    def append_group(
        self,
        shard: Shard,
        group: ClassicGroup,
        assignments: dict[str, tuple[TopicPartition, ...]],
        now: int,
    ) -> Errors:
        """Append the group's record with these assignments."""
        wall_ms = self.runtime.process.wall_ms(now)
        value = group.to_record(assignments, wall_ms)
        return self.runtime.append(shard, (group_record(group.group_id, value, 0, wall_ms),), now)

    def _arm_join(self, shard: Shard, group: ClassicGroup, now: int) -> None:
        self.timers.arm(
            ("group-join", group.group_id),
            now + group.rebalance_timeout_ms * 1000,
            LANE,
            lambda at: self.complete_join(shard, group, at),
        )

    def _delay_initial(
        self, shard: Shard, group: ClassicGroup, delay_ms: int, remaining_ms: int, now: int
    ) -> None:
        """Wait ``delay_ms`` for the first members, again and again while new ones come."""

        def on_delay(at: int) -> None:
            if group.new_member_added and remaining_ms != 0:
                group.new_member_added = False
                next_ms = min(self.initial_delay_ms, remaining_ms)
                left_ms = max(remaining_ms - delay_ms, 0)
                self._delay_initial(shard, group, next_ms, left_ms, at)
            else:
                self.complete_join(shard, group, at)

        key = ("group-join", group.group_id)
        self.timers.arm(key, now + delay_ms * 1000, LANE, on_delay)

    # Members

    def add_member(
        self,
        shard: Shard,
        group: ClassicGroup,
        member: Member,
        protocol_type: str,
        parked: Parked,
        now: int,
    ) -> None:
        """Add a member whose join is parked.

        It cannot send heartbeats before it has its answer, and its connection is muted meanwhile,
        so it gets five minutes instead of its session.
        """
        member.is_new = True
        if group.state is State.PREPARING_REBALANCE and group.previous_state is State.EMPTY:
            group.new_member_added = True
        group.add(member, protocol_type, parked)
        self._arm_member(shard, group, member, NEW_MEMBER_JOIN_TIMEOUT_MS, now)

    def remove_member(
        self, shard: Shard, group: ClassicGroup, member: Member, reason: str, now: int
    ) -> None:
        """Remove a member whose session is over, and rebalance."""
        parked = member.awaiting_join
        if parked is not None:
            self.runtime.respond(parked, join_error(Errors.UNKNOWN_MEMBER_ID, ""))
        self.forget(group, member.member_id)
        self.rebalance_without(shard, group, reason, now)

    def rebalance_without(self, shard: Shard, group: ClassicGroup, reason: str, now: int) -> None:
        """Go on after members were removed."""
        if group.state in (State.STABLE, State.COMPLETING_REBALANCE):
            self.prepare_or_complete(shard, group, reason, now)
        elif group.state is State.PREPARING_REBALANCE:
            self.complete_if_joined(shard, group, now)

    def add_pending(
        self, shard: Shard, group: ClassicGroup, member_id: str, session_timeout_ms: int, now: int
    ) -> None:
        """Hand out a member id (KIP-394); the rebalance waits for it for a session."""
        group.pending_join[member_id] = None
        self.timers.arm(
            ("group-session", group.group_id, member_id),
            now + session_timeout_ms * 1000,
            LANE,
            lambda at: self._expire_session(shard, group, member_id, at),
        )

    def arm_session(self, shard: Shard, group: ClassicGroup, member: Member, now: int) -> None:
        """Start the member's session anew."""
        self._arm_member(shard, group, member, member.session_timeout_ms, now)

    def cancel_timers(self, group: ClassicGroup) -> None:
        """Cancel all timers of a group that is given up."""
        self.timers.cancel(("group-join", group.group_id))
        self.timers.cancel(("group-sync", group.group_id))
        for member_id in [*group.members, *group.pending_join]:
            self.timers.cancel(("group-session", group.group_id, member_id))

    def forget(self, group: ClassicGroup, member_id: str) -> None:
        """Remove a member or a handed-out id with its session timer."""
        group.remove(member_id)
        self.timers.cancel(("group-session", group.group_id, member_id))

    def _arm_member(
        self, shard: Shard, group: ClassicGroup, member: Member, timeout_ms: int, now: int
    ) -> None:
        expire = member.expire
        if expire is None:
            member_id = member.member_id
            expire = member.expire = lambda at: self._expire_session(shard, group, member_id, at)
        key = ("group-session", group.group_id, member.member_id)
        self.timers.arm(key, now + timeout_ms * 1000, LANE, expire)

    def _expire_session(self, shard: Shard, group: ClassicGroup, member_id: str, now: int) -> None:
        if group.state is State.DEAD:
            return
        if member_id in group.pending_join:
            self.forget(group, member_id)
            self.complete_if_joined(shard, group, now)
            return
        member = group.members.get(member_id)
        if member is not None and self.runtime.rules.session_expires(
            member.is_new, member.awaiting_join is not None, member.awaiting_sync is not None
        ):
            self.remove_member(shard, group, member, f"session of {member_id} expired", now)

    def _expire_sync(self, shard: Shard, group: ClassicGroup, generation: int, now: int) -> None:
        """Remove the members that joined this generation and never synced."""
        assert generation == group.generation, (group.group_id, generation, group.generation)
        missing = list(group.pending_sync)
        if missing and group.state in (State.COMPLETING_REBALANCE, State.STABLE):
            for member_id in missing:
                self.forget(group, member_id)
            self.prepare(shard, group, f"no SyncGroup from {', '.join(missing)}", now)

    # Answers to parked requests

    def answer_join(
        self, group: ClassicGroup, member: Member, error: Errors, skip_assignment: bool = False
    ) -> None:
        """Answer a member's parked join, if there is one, with the current generation."""
        parked = member.awaiting_join
        if parked is not None:
            group.park_join(member, None)
            answer = joined(group, member, skip_assignment)
            if error is not Errors.NONE:
                answer = join_error(error, member.member_id)
            self.runtime.respond(parked, answer)

    def set_assignment(
        self,
        shard: Shard,
        group: ClassicGroup,
        assignments: dict[str, tuple[TopicPartition, ...]],
        now: int,
    ) -> None:
        """Give every member its assignment and answer the parked syncs; sessions start anew."""
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, ())
            parked = member.awaiting_sync
            if parked is not None:
                member.awaiting_sync = None
                self.runtime.respond(parked, synced(group, member))
                self.arm_session(shard, group, member, now)

    def reset_assignment(self, group: ClassicGroup, error: Errors, now: int) -> None:
        """Take all assignments back and answer the parked syncs with an error."""
        for member in group.members.values():
            member.assignment = ()
            parked = member.awaiting_sync
            if parked is not None:
                member.awaiting_sync = None
                self.runtime.respond(parked, sync_error(error))
                if member.expire is not None:
                    key = ("group-session", group.group_id, member.member_id)
                    deadline = now + member.session_timeout_ms * 1000
                    self.timers.arm(key, deadline, LANE, member.expire)


def joined(group: ClassicGroup, member: Member, skip_assignment: bool = False) -> JoinGroupResponse:
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


def synced(group: ClassicGroup, member: Member) -> SyncGroupResponse:
    """Return the answer to a sync."""
    return SyncGroupResponse(Errors.NONE, group.protocol_type, group.protocol, member.assignment)


def sync_error(error: Errors) -> SyncGroupResponse:
    """Return the answer to a sync that failed."""
    return SyncGroupResponse(error, None, None, ())
