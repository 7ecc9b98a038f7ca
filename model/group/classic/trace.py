"""Facts about groups: their states, and who owns which partitions."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.facts import (
    GroupAssigned,
    GroupState,
    HoleEntered,
    InstanceIdHeld,
    MemberExpired,
    MemberIdReverted,
    MemberRequest,
)
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState, ClassicMember
from kafkasim.model.messages import (
    ConsumerGroupHeartbeatRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    LeaveGroupRequest,
    Subscription,
    SyncGroupRequest,
)
from kafkasim.model.records import TopicPartition


class GroupTrace:
    """Writes the facts about groups, but those about their offsets."""

    def __init__(self, out: list[Any]) -> None:
        self._out = out

    def record_hole(self, hole: HoleEntered) -> None:
        """Write that a known defect of Kafka strikes a group."""
        self._out.append(hole)

    def record_request(self, request: Any, keeps_timeouts: ClassicMember | None) -> None:
        """Write that a member's request has arrived; of other requests, write nothing.

        ``keeps_timeouts`` is the sender of a JoinGroup if its timeouts stay what they were.
        """
        kind, group = type(request), request.group_id
        if kind is HeartbeatRequest or kind is SyncGroupRequest:
            api = "Heartbeat" if kind is HeartbeatRequest else "SyncGroup"
            member, instance = request.member_id, request.group_instance_id
            self._record(group, member, instance, api, request.generation_id)
        elif kind is JoinGroupRequest:
            says: JoinGroupRequest | ClassicMember = keeps_timeouts or request
            told = request.protocols[0][1] if request.protocols else Subscription(())
            self._out.append(
                MemberRequest(
                    group, request.member_id, request.group_instance_id, "JoinGroup",
                    told.generation_id, told.topics, tuple([name for name, _ in request.protocols]),
                    says.session_timeout_ms, says.rebalance_timeout_ms,
                    tuple([str(tp) for tp in told.owned_partitions]), told.rack_id or "",
                )
            )  # fmt: skip
        elif kind is LeaveGroupRequest:
            for member, instance, _ in request.members:
                self._record(group, member, instance, "LeaveGroup", -1)

    def record_heartbeat(self, request: ConsumerGroupHeartbeatRequest) -> None:
        """Write that a heartbeat of a consumer group's member was accepted (KIP-848)."""
        regex = request.subscribed_topic_regex
        topics = (*(request.subscribed_topic_names or ()), *((f"/{regex}/",) if regex else ()))
        self._out.append(
            MemberRequest(
                request.group_id, request.member_id, request.instance_id, "ConsumerGroupHeartbeat",
                request.member_epoch, topics, (),
                0, max(request.rebalance_timeout_ms, 0),
            )
        )  # fmt: skip

    def _record(
        self, group: str, member_id: str, instance_id: str | None, api: str, generation: int
    ) -> None:
        self._out.append(
            MemberRequest(group, member_id, instance_id, api, generation, (), (), 0, 0)
        )

    def record_expired(self, group: ClassicGroup, member: ClassicMember, now: int) -> None:
        """Write that a member's session has ended, and how long it was silent."""
        silent_us = now - member.heard_us
        self._out.append(
            MemberExpired(group.group_id, member.member_id, silent_us, member.session_us)
        )

    def record_fenced(
        self,
        group: ClassicGroup,
        member_id: str,
        instance_id: str | None,
        error: Errors,
        now: int,
    ) -> None:
        """Write who has the instance id for which a member is refused; of other errors, nothing."""
        owner = group.members.get(group.static_members.get(instance_id or "", ""))
        if error is Errors.FENCED_INSTANCE_ID and owner is not None:
            left_us = max(0, owner.heard_us + owner.session_us - now)
            of = (group.group_id, instance_id, member_id, owner.member_id)
            self._out.append(InstanceIdHeld(*of, error.name, left_us))

    def record_held(
        self, group: str, instance_id: str, member_id: str, owner: str, error: Errors, left_us: int
    ) -> None:
        """Write who has the instance id for which a member of a consumer group is refused."""
        of = (group, instance_id, member_id, owner)
        self._out.append(InstanceIdHeld(*of, error.name, left_us))

    def record_state(
        self,
        group: ClassicGroup,
        reason: str,
        wait_us: int = -1,
        rebalance_timeout_us: int = -1,
        changed: bool = True,
    ) -> None:
        """Write the group's state, generation and members, and why a rebalance begins."""
        self._out.append(
            GroupState(
                group.group_id,
                group.state.value,
                group.generation,
                tuple(group.members),
                group.protocol or "",
                reason,
                group.leader or "",
                wait_us,
                rebalance_timeout_us,
                changed,
            )
        )

    def record_dead(self, group: ClassicGroup, reason: str) -> None:
        """Write that a group without members is deleted."""
        protocol, dead = group.protocol or "", ClassicGroupState.DEAD.value
        self._out.append(
            GroupState(group.group_id, dead, group.generation, (), protocol, reason, "")
        )

    def record_assigned(self, group: ClassicGroup) -> None:
        """Write what each member owns in this generation."""
        for member in group.members.values():
            self.record_assignment(group, member.member_id, member.assignment)

    def record_replaced(self, group: ClassicGroup, old_id: str, member: ClassicMember) -> None:
        """Write that a static member's partitions are now owned under another member id."""
        self._out.append(GroupAssigned(group.group_id, group.generation, old_id, ()))
        self.record_assignment(group, member.member_id, member.assignment)

    def record_reverted(
        self, group: ClassicGroup, old: ClassicMember, new_id: str, error: Errors
    ) -> None:
        """Write that a static member has its old id again."""
        self._out.append(
            MemberIdReverted(group.group_id, old.member_id, old.instance_id, new_id, error.name)
        )
        self.record_state(group, f"{error.name} when storing {new_id}, {old.member_id} is back")

    def record_assignment(
        self, group: ClassicGroup, member_id: str, assignment: tuple[TopicPartition, ...]
    ) -> None:
        """Write what one member owns in this generation."""
        owned = tuple([str(tp) for tp in assignment])
        self._out.append(GroupAssigned(group.group_id, group.generation, member_id, owned))
