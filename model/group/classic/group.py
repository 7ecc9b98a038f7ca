"""A classic group and its members (ClassicGroup, ClassicGroupMember): state without effects.

:data:`PREDECESSORS` is the whole transition table of the five states. Only
:meth:`ClassicGroup.transition_to` moves a group along it:

    EMPTY ◀──▶ PREPARING_REBALANCE ◀──▶ COMPLETING_REBALANCE ──▶ STABLE
                        ▲                                          │
                        └──────────────────────────────────────────┘
    (and DEAD, from everywhere)

Requests are served in membership.py; rebalance.py has the timers, static.py static members.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from kafkasim.model.coordinator.context import Parked
from kafkasim.model.errors import Errors
from kafkasim.model.group.records import GroupMetadataValue, MemberMetadata
from kafkasim.model.messages import JoinGroupMember, Subscription
from kafkasim.model.records import TopicPartition

Protocols = tuple[tuple[str, Subscription], ...]  # (assignor, subscription) by preference
CONSUMER = "consumer"
"""The protocol type of consumers; the coordinator can read their subscriptions."""


class ClassicGroupState(Enum):
    """State of a group (ClassicGroupState); the values stand in the trace."""

    EMPTY = "Empty"  # no members; it may have offsets
    PREPARING_REBALANCE = "PreparingRebalance"  # waits for the members' JoinGroup
    COMPLETING_REBALANCE = "CompletingRebalance"  # waits for the leader's SyncGroup
    STABLE = "Stable"  # every member has its assignment
    DEAD = "Dead"  # deleted


PREDECESSORS: dict[ClassicGroupState, tuple[ClassicGroupState, ...]] = {
    ClassicGroupState.EMPTY: (ClassicGroupState.PREPARING_REBALANCE,),
    ClassicGroupState.PREPARING_REBALANCE: (
        ClassicGroupState.STABLE,
        ClassicGroupState.COMPLETING_REBALANCE,
        ClassicGroupState.EMPTY,
    ),
    ClassicGroupState.COMPLETING_REBALANCE: (ClassicGroupState.PREPARING_REBALANCE,),
    ClassicGroupState.STABLE: (ClassicGroupState.COMPLETING_REBALANCE,),
    ClassicGroupState.DEAD: tuple(ClassicGroupState),
}
"""Each state, and the states from which a group may enter it."""


class ClassicMember:
    """A member of a group. At most one of its requests is parked: a join or a sync."""

    __slots__ = (
        "assignment",
        "awaiting_join",
        "awaiting_sync",
        "client_id",
        "expire",
        "heard_us",
        "instance_id",
        "is_new",
        "member_id",
        "protocols",
        "rebalance_timeout_ms",
        "session_timeout_ms",
        "session_us",
    )

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        rebalance_timeout_ms: int,
        session_timeout_ms: int,
        protocols: Protocols,
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols
        self.assignment: tuple[TopicPartition, ...] = ()
        self.awaiting_join: Parked | None = None
        self.awaiting_sync: Parked | None = None
        self.is_new = False  # it has not been in a generation yet
        self.expire: Callable[[int], None] | None = None  # the handler of its session timer
        self.session_us = 0  # the session that was armed last
        self.heard_us = 0  # when that was, or when a later heartbeat came

    def subscription(self, protocol: str | None) -> Subscription:
        """Return the subscription that the member sent for an assignor."""
        for name, subscription in self.protocols:
            if name == protocol:
                return subscription
        raise AssertionError(f"{self.member_id} does not support {protocol}: {self.protocols}")

    def update(
        self, rebalance_timeout_ms: int, session_timeout_ms: int, protocols: Protocols
    ) -> None:
        """Take over what a JoinGroup says of the member."""
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.session_timeout_ms = session_timeout_ms
        self.protocols = protocols

    def park_sync(self, parked: Parked) -> None:
        """Park the member's SyncGroup; a sync that was parked before gets no answer."""
        self.awaiting_sync = parked

    def take_sync(self) -> Parked | None:
        """Return the parked sync, and park it no longer; None if there is none."""
        parked, self.awaiting_sync = self.awaiting_sync, None
        return parked


class ClassicGroup:
    """A group of the classic protocol."""

    def __init__(self, group_id: str, now_ms: int) -> None:
        self.group_id = group_id
        self.state = ClassicGroupState.EMPTY
        self.previous_state = ClassicGroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None  # None: offsets of a simple consumer only
        self.protocol: str | None = None  # the assignor of this generation
        self.leader: str | None = None  # one of the members, None if there are none
        self.members: dict[str, ClassicMember] = {}  # by member id, in the order of joining
        self.static_members: dict[str, str] = {}  # instance id -> member id
        self.pending_join: dict[str, None] = {}  # ids handed out with MEMBER_ID_REQUIRED
        self.pending_sync: dict[str, None] = {}  # members of the generation without a SyncGroup
        self.awaiting_join_count = 0  # members whose join is parked
        self.new_member_added = False  # during the initial rebalance delay
        self.departed: list[str] = []  # since the join phase began: who is not awaited any more
        self.subscribed_topics: tuple[str, ...] | None = None  # None: unknown
        self.current_state_timestamp_ms = now_ms

    @classmethod
    def of_record(cls, group_id: str, value: GroupMetadataValue) -> ClassicGroup:
        """Return the group that a record describes: Stable with its members, or Empty."""
        group = cls(group_id, value.current_state_timestamp_ms)
        group.generation = value.generation
        group.protocol_type = value.protocol_type
        group.protocol = value.protocol
        for m in value.members:
            assert value.protocol is not None, value
            protocols = ((value.protocol, m.subscription),)
            member = ClassicMember(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                protocols,
            )
            member.assignment = m.assignment
            group.add(member, value.protocol_type, None)
        group.leader = value.leader
        group.state = ClassicGroupState.STABLE if value.members else ClassicGroupState.EMPTY
        group.subscribed_topics = group.compute_subscribed_topics()
        return group

    def to_record(
        self, assignments: dict[str, tuple[TopicPartition, ...]], timestamp_ms: int
    ) -> GroupMetadataValue:
        """Return the value of the group's record with these assignments."""
        members = [
            MemberMetadata(
                m.member_id,
                m.instance_id,
                m.client_id,
                m.rebalance_timeout_ms,
                m.session_timeout_ms,
                m.subscription(self.protocol),
                assignments.get(m.member_id, ()),
            )
            for m in self.members.values()
        ]
        return GroupMetadataValue(
            self.protocol_type,
            self.generation,
            self.protocol,
            self.leader,
            timestamp_ms,
            tuple(members),
        )

    def settle(self, now_ms: int) -> None:
        """Be Stable with the members that were added: a consumer group becomes a classic one."""
        assert self.state is ClassicGroupState.EMPTY, (self.group_id, self.state)
        self.protocol = self.select_protocol()
        self.subscribed_topics = self.compute_subscribed_topics()
        self.state = ClassicGroupState.STABLE
        self.current_state_timestamp_ms = now_ms

    def transition_to(self, state: ClassicGroupState, now_ms: int) -> None:
        """Change the state; :data:`PREDECESSORS` must allow it."""
        assert self.state in PREDECESSORS[state], f"{self.group_id}: {self.state} to {state}"
        self.previous_state = self.state
        self.state = state
        self.current_state_timestamp_ms = now_ms

    # Members

    def add(self, member: ClassicMember, protocol_type: str | None, parked: Parked | None) -> None:
        """Add a member; the first one gives the group its protocol type and becomes its leader.

        ``parked`` is its JoinGroup, None when the member comes from a record.
        """
        assert member.member_id not in self.members, f"{self.group_id}: {member.member_id} is known"
        if not self.members:
            self.protocol_type = protocol_type
        assert self.protocol_type == protocol_type, f"{self.group_id}: {protocol_type}"
        if self.leader is None:
            self.leader = member.member_id
        if member.instance_id is not None:
            known = self.static_members.get(member.instance_id)
            assert known is None, f"{self.group_id}: {member.instance_id} is {known}"
            self.static_members[member.instance_id] = member.member_id
        preparing = self.state is ClassicGroupState.PREPARING_REBALANCE
        if preparing and self.previous_state is ClassicGroupState.EMPTY:
            self.new_member_added = True
        self.members[member.member_id] = member
        member.is_new = parked is not None
        self.park_join(member, parked)
        self.pending_join.pop(member.member_id, None)

    def remove(self, member_id: str) -> ClassicMember | None:
        """Remove a member or a pending id; the member that joined next becomes the leader.

        Return the member, or None if there is none of this id.
        """
        member = self.members.pop(member_id, None)
        if member is not None:
            self.park_join(member, None)
            if member.instance_id is not None:
                self.static_members.pop(member.instance_id, None)
            if self.leader == member_id:
                self.leader = next(iter(self.members), None)
        self.pending_join.pop(member_id, None)
        self.pending_sync.pop(member_id, None)
        return member

    def replace_static_member(self, member: ClassicMember, new_id: str) -> ClassicMember:
        """Give a static member's place to a new member id; return the member under that id.

        The caller has answered the parked requests of the old id.
        """
        new = ClassicMember(
            new_id,
            member.instance_id,
            member.client_id,
            member.rebalance_timeout_ms,
            member.session_timeout_ms,
            member.protocols,
        )
        new.assignment = member.assignment
        new.is_new = member.is_new
        was_leader = self.leader == member.member_id
        self.remove(member.member_id)
        self.members[new_id] = new
        assert member.instance_id is not None, member.member_id
        self.static_members[member.instance_id] = new_id
        if was_leader:
            self.leader = new_id
        return new

    def hand_out(self, member_id: str) -> None:
        """Remember a member id that was handed out, until its JoinGroup or its removal."""
        self.pending_join[member_id] = None

    def release_instance(self, instance_id: str) -> None:
        """Forget which member has an instance id; the member stays."""
        del self.static_members[instance_id]

    def park_join(self, member: ClassicMember, parked: Parked | None) -> None:
        """Set or clear the parked join of a member, and keep the count."""
        self.awaiting_join_count += (parked is not None) - (member.awaiting_join is not None)
        member.awaiting_join = parked
        assert 0 <= self.awaiting_join_count <= len(self.members) + 1, self.awaiting_join_count

    def validate_member(self, member_id: str, instance_id: str | None) -> Errors:
        """Return NONE if the member is known and its instance id is its own (validateMember)."""
        if instance_id is not None:
            known = self.static_members.get(instance_id)
            if known is None:
                return Errors.UNKNOWN_MEMBER_ID
            if known != member_id:
                return Errors.FENCED_INSTANCE_ID
        return Errors.NONE if member_id in self.members else Errors.UNKNOWN_MEMBER_ID

    # Rebalance

    @property
    def can_rebalance(self) -> bool:
        """Whether a rebalance may start in this state."""
        return self.state in PREDECESSORS[ClassicGroupState.PREPARING_REBALANCE]

    @property
    def all_joined(self) -> bool:
        """Whether every member's join is parked and no handed-out id is outstanding."""
        return self.awaiting_join_count == len(self.members) and not self.pending_join

    @property
    def rebalance_timeout_ms(self) -> int:
        """The longest rebalance timeout of the members, in ms."""
        return max([m.rebalance_timeout_ms for m in self.members.values()], default=0)

    def elect_joined_leader(self) -> bool:
        """Make a member with a parked join the leader, the present one if possible.

        Return False if no member has one (maybeElectNewJoinedLeader).
        """
        if self.leader is None:
            return False
        if self.members[self.leader].awaiting_join is not None:
            return True
        for member in self.members.values():
            if member.awaiting_join is not None:
                self.leader = member.member_id
                return True
        return False

    def next_generation(self, now_ms: int) -> None:
        """Begin the next generation: CompletingRebalance, or Empty without members."""
        self.generation += 1
        self.protocol = self.select_protocol() if self.members else None
        self.subscribed_topics = self.compute_subscribed_topics()
        if self.members:
            self.transition_to(ClassicGroupState.COMPLETING_REBALANCE, now_ms)
        else:
            self.transition_to(ClassicGroupState.EMPTY, now_ms)
        self.pending_sync.clear()
        self.new_member_added = False

    def await_sync(self, member: ClassicMember) -> None:
        """Expect a member's SyncGroup: it belongs to the generation that has begun."""
        member.is_new = False
        self.pending_sync[member.member_id] = None

    def sync_arrived(self, member_id: str) -> bool:
        """Expect a member's SyncGroup no longer; return whether none is outstanding."""
        self.pending_sync.pop(member_id, None)
        return not self.pending_sync

    def take_new_member_added(self) -> bool:
        """Return whether a member was added since the last call, in the initial delay."""
        added, self.new_member_added = self.new_member_added, False
        return added

    def supports(self, protocol_type: str, protocols: Protocols) -> bool:
        """Return whether a member with these protocols may join.

        All members must support one of them (supportsProtocols).
        """
        if self.state is ClassicGroupState.EMPTY or not self.members:
            return bool(protocol_type) and bool(protocols)
        if protocol_type != self.protocol_type:
            return False
        common = self._common_protocols()
        return any(name in common for name, _ in protocols)

    def select_protocol(self) -> str:
        """Return the protocol with the most votes, of those that all members support.

        Each member votes for the first of them in its list. In a tie the protocol wins that got a
        vote first; in Kafka the order of a HashMap decides.
        """
        common = self._common_protocols()
        votes: dict[str, int] = {}
        for member in self.members.values():
            vote = next(name for name, _ in member.protocols if name in common)
            votes[vote] = votes.get(vote, 0) + 1
        return max(votes, key=lambda name: votes[name])

    def joined_members(self) -> tuple[JoinGroupMember, ...]:
        """Return the members and their subscriptions, for the leader's JoinGroup response."""
        return tuple(
            [
                JoinGroupMember(m.member_id, m.instance_id, m.subscription(self.protocol))
                for m in self.members.values()
            ]
        )

    def compute_subscribed_topics(self) -> tuple[str, ...] | None:
        """Return the sorted topics that some member subscribes to, None if that is unknown."""
        if self.protocol_type != CONSUMER:
            return None
        topics: dict[str, None] = {}
        for member in self.members.values():
            topics.update(dict.fromkeys(member.subscription(self.protocol).topics))
        return tuple(sorted(topics))

    def is_subscribed(self, topic: str) -> bool:
        """Return whether some member subscribes to the topic, or may do so."""
        if self.subscribed_topics is None:
            return self.protocol_type == CONSUMER
        return topic in self.subscribed_topics

    def _common_protocols(self) -> dict[str, None]:
        common: dict[str, None] | None = None
        for member in self.members.values():
            names = [name for name, _ in member.protocols]
            if common is None:
                common = dict.fromkeys(names)
            else:
                common = {name: None for name in common if name in names}
        return common or {}
