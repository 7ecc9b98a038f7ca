"""ConsumerGroupHeartbeat (GroupMetadataManager.consumerGroupHeartbeat, KIP-848).

    heartbeat ──▶ checks of the request, the group, the member and its epoch
                   1  the member is new or tells news: its record; the group epoch rises
                   2  the group epoch is above the target's: a new target assignment
                   3  the member is not at the target: its next step (current_assignment.py)
              ──▶ all records in one append, and the answer once they are committed

Not modelled: version 0, in which the coordinator makes the member ids; rack-aware assignment; group
configurations (group.consumer.* of a single group).
"""

from __future__ import annotations

from dataclasses import replace

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.context import Parked
from kafkasim.model.coordinator.runtime import CoordinatorRuntime, client_error
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroupState
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.classic.trace import GroupTrace
from kafkasim.model.group.modern.checks import (
    HeartbeatRefused,
    check_member_epoch,
    check_request,
    check_size,
    known_member,
    known_static_member,
    refuse_if,
)
from kafkasim.model.group.modern.departures import Departures
from kafkasim.model.group.modern.log.records import (
    Entry,
    group_tombstones,
    member_entry,
)
from kafkasim.model.group.modern.log.writer import Change, ConsumerGroupWriter
from kafkasim.model.group.modern.migration.upgrades import Upgrades
from kafkasim.model.group.modern.regexes import RegularExpressions
from kafkasim.model.group.modern.state.assignment import (
    Assignment,
    from_message,
    to_message,
)
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup, ConsumerGroupState
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.modern.steps import MemberSteps
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import (
    JOIN_GROUP_MEMBER_EPOCH,
    LEAVE_GROUP_STATIC_MEMBER_EPOCH,
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
)


class ConsumerGroupHeartbeats:
    """Serves the heartbeats of the consumer groups of an active shard."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        rules: GroupRules,
        image: TopicsImage,
        trace: GroupTrace,
        classic: ClassicRebalance,
        new_coordinator: bool,
    ) -> None:
        """``classic`` has the classic groups that become consumer groups, and those that were.

        ``new_coordinator`` is False for the Scala coordinator of ZooKeeper mode, which has no
        consumer groups.
        """
        self.runtime = runtime
        self.config = config
        self.rules = rules
        self.image = image
        self.trace = trace
        self.default_assignor = config.group_consumer_assignors[0]
        self.writer = ConsumerGroupWriter(runtime, image, self.default_assignor)
        self.departures = Departures(runtime, config, rules, self.writer, classic)
        self.regexes = RegularExpressions(runtime, rules, image, self.writer)
        self.steps = MemberSteps(rules, image, self.departures, self.regexes, self.default_assignor)
        self._upgrades = Upgrades(config, rules, image, classic, self.departures)
        self._supported = (
            new_coordinator and "consumer" in config.group_coordinator_rebalance_protocols
        )

    @property
    def enabled(self) -> bool:
        """Whether groups may use this protocol (KafkaApis.isConsumerGroupProtocolEnabled)."""
        on = self.image.group_version >= 1 or not self.rules.needs_group_version()
        return self._supported and on

    def on_heartbeat(
        self, shard: GroupShard, parked: Parked, request: ConsumerGroupHeartbeatRequest, now: int
    ) -> None:
        """Serve a heartbeat; it is answered when what it has changed is committed."""
        change = Change()
        try:
            check_request(request, self.config.group_consumer_assignors)
            if request.member_epoch < JOIN_GROUP_MEMBER_EPOCH:
                response = self._leave(shard, request, change, now)
            else:
                response = self._heartbeat(shard, parked, request, change, now)
        except HeartbeatRefused as refused:
            self._tell_owner(shard, request, refused.error, now)
            self.runtime.respond(parked, ConsumerGroupHeartbeatResponse(refused.error))
            return
        self.trace.record_heartbeat(request)
        reason = f"heartbeat of {request.member_id}, epoch {request.member_epoch}"
        error = self.writer.write(shard, request.group_id, change, reason, now)
        if error is Errors.NONE:
            self.runtime.defer(shard.context, self._on_committed, (parked, response), now)
        else:
            self.runtime.respond(parked, ConsumerGroupHeartbeatResponse(client_error(error)))

    def _tell_owner(
        self,
        shard: GroupShard,
        request: ConsumerGroupHeartbeatRequest,
        error: Errors,
        now: int,
    ) -> None:
        """Write who has the instance id, if that is why a heartbeat is refused."""
        if error not in (Errors.UNRELEASED_INSTANCE_ID, Errors.FENCED_INSTANCE_ID):
            return
        group_id, instance_id = request.group_id, request.instance_id
        group = shard.consumer_groups[group_id]
        owner = None if instance_id is None else group.static_member(instance_id)
        if instance_id is not None and owner is not None:
            left_us = self.departures.session_left_us(group_id, owner.member_id, now)
            of = (group_id, instance_id, request.member_id, owner.member_id)
            self.trace.record_held(*of, error, left_us)

    def _on_committed(
        self, waiting: tuple[Parked, ConsumerGroupHeartbeatResponse], error: Errors, _now: int
    ) -> None:
        parked, response = waiting
        if error is not Errors.NONE:
            response = ConsumerGroupHeartbeatResponse(client_error(error))
        self.runtime.respond(parked, response)

    def on_loaded(self, shard: GroupShard, now: int) -> None:
        """Let all sessions start anew, and the waits for revocations."""
        self.writer.on_loaded(shard)
        for group in shard.consumer_groups.values():
            for member in group.members.values():
                self.departures.arm_session(shard, group.group_id, member.member_id, now)
                self.departures.arm_rebalance(shard, group.group_id, member, now)

    def on_unloaded(self, shard: GroupShard) -> None:
        """Let the timers of all members go."""
        self.writer.on_unloaded(shard)
        for group in shard.consumer_groups.values():
            for member_id in group.members:
                self.departures.cancel_timers(group.group_id, member_id)

    def on_topics_changed(self, shard: GroupShard, names: tuple[str, ...]) -> None:
        """Have groups look their topics up that subscribe to one of these."""
        for group in shard.consumer_groups.values():
            if any(group.is_subscribed(name) for name in names):
                group.request_refresh()

    def delete_if_empty(self, shard: GroupShard, group: ConsumerGroup, now: int) -> bool:
        """Append the tombstones of an empty group; return whether that succeeded."""
        if group.state is not ConsumerGroupState.EMPTY:
            return False
        change = Change(group_tombstones(group.group_id, group.regexes))
        written = self.writer.write(shard, group.group_id, change, "empty", now)
        return written is Errors.NONE

    # Leaving.

    def _leave(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, change: Change, now: int
    ) -> ConsumerGroupHeartbeatResponse:
        """Remove a member that leaves, or let a static one go for a while (consumerGroupLeave)."""
        group = shard.consumer_groups.get(request.group_id)
        if group is None:
            raise HeartbeatRefused(Errors.GROUP_ID_NOT_FOUND)
        instance_id, member_id = request.instance_id, request.member_id
        if instance_id is None:
            member = known_member(group, member_id)
        else:
            member = known_static_member(group, instance_id, member_id)
        for_a_while = request.member_epoch == LEAVE_GROUP_STATIC_MEMBER_EPOCH
        if instance_id is not None and for_a_while:
            change.entries += self.departures.leave_for_a_while(group, member)
        else:
            self.departures.remove(shard, group, [member], change, now)
        return ConsumerGroupHeartbeatResponse(Errors.NONE, member_id, request.member_epoch)

    # Regular heartbeats.

    def _heartbeat(
        self,
        shard: GroupShard,
        parked: Parked,
        request: ConsumerGroupHeartbeatRequest,
        change: Change,
        now: int,
    ) -> ConsumerGroupHeartbeatResponse:
        group = self._group(shard, request, change, now)
        entries = change.entries
        check_size(group, request.member_id, self.config.group_consumer_max_size)
        told = request.topic_partitions
        owned = None if told is None else from_message(told)
        member = self._member(group, request, owned, entries)
        updated = _told(member, request)
        bump = group.group_epoch == 0  # the group is new
        if updated != member:
            entries.append(member_entry(group.group_id, updated))
            bump |= updated.topics != member.topics
        bump |= self.regexes.update(shard, group, member, updated, entries, parked[0], now)
        reconciled = self.steps.advance(shard, group, member, updated, bump, owned, entries, now)
        joins = request.member_epoch == JOIN_GROUP_MEMBER_EPOCH
        if joins or self.rules.consumer_heartbeat_renews_session():
            self.departures.arm_session(shard, group.group_id, request.member_id, now)
        changed = reconciled.assigned != member.assigned
        interval_ms = self.config.group_consumer_heartbeat_interval_ms
        return ConsumerGroupHeartbeatResponse(
            Errors.NONE,
            reconciled.member_id,
            reconciled.member_epoch,
            interval_ms,
            to_message(reconciled.assigned) if joins or changed or _is_full(request) else None,
        )

    def _group(
        self, shard: GroupShard, request: ConsumerGroupHeartbeatRequest, change: Change, now: int
    ) -> ConsumerGroup:
        """Return the group, a new one for its first member (getOrMaybeCreateConsumerGroup).

        An empty classic group is replaced; one with members is converted, if that is allowed.

        Raises:
            HeartbeatRefused: GROUP_ID_NOT_FOUND, or UNKNOWN_SERVER_ERROR.
        """
        group = shard.consumer_groups.get(request.group_id)
        if group is not None:
            return group
        refuse_if(request.member_epoch != JOIN_GROUP_MEMBER_EPOCH, Errors.GROUP_ID_NOT_FOUND)
        classic = shard.groups.get(request.group_id)
        if classic is None:
            return ConsumerGroup(request.group_id, self.rules)
        if classic.state is ClassicGroupState.EMPTY:
            return self._upgrades.replace(classic, change)
        return self._upgrades.convert(shard, classic, change, now)

    def _member(
        self,
        group: ConsumerGroup,
        request: ConsumerGroupHeartbeatRequest,
        owned: Assignment | None,
        entries: list[Entry],
    ) -> ConsumerGroupMember:
        """Return the member that a heartbeat is from, as it was.

        Raises:
            HeartbeatRefused: UNKNOWN_MEMBER_ID, FENCED_MEMBER_EPOCH, FENCED_INSTANCE_ID,
                UNRELEASED_INSTANCE_ID.
        """
        epoch, member_id = request.member_epoch, request.member_id
        instance_id = request.instance_id
        joins = epoch == JOIN_GROUP_MEMBER_EPOCH
        if instance_id is not None and joins:
            return self.steps.join_static(group, instance_id, member_id, False, entries)
        if instance_id is not None:
            member = known_static_member(group, instance_id, member_id)
        elif joins:
            member = group.members.get(member_id) or ConsumerGroupMember(member_id)
        else:
            member = known_member(group, member_id)
        check_member_epoch(member, epoch, owned)
        return member


def _told(
    member: ConsumerGroupMember, request: ConsumerGroupHeartbeatRequest
) -> ConsumerGroupMember:
    """Return a member with what its heartbeat tells of it."""
    topics, timeout_ms = request.subscribed_topic_names, request.rebalance_timeout_ms
    return replace(
        member,
        instance_id=_or(request.instance_id, member.instance_id),
        rack_id=_or(request.rack_id, member.rack_id),
        rebalance_timeout_ms=member.rebalance_timeout_ms if timeout_ms == -1 else timeout_ms,
        server_assignor=_or(request.server_assignor, member.server_assignor),
        topics=member.topics if topics is None else tuple(sorted(dict.fromkeys(topics))),
        regex=member.regex
        if request.subscribed_topic_regex is None
        else request.subscribed_topic_regex,
        client_id=request.client_id,
        classic=None,
    )


def _or(told: str | None, known: str | None) -> str | None:
    return known if told is None else told


def _is_full(request: ConsumerGroupHeartbeatRequest) -> bool:
    """Return whether a heartbeat has every field: its answer has the whole assignment."""
    topics, regex = request.subscribed_topic_names, request.subscribed_topic_regex
    subscribed = topics is not None or regex is not None
    return (
        request.rebalance_timeout_ms != -1 and subscribed and request.topic_partitions is not None
    )
