"""Members of groups: their requests, their assignments, and the sizes of their topics."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.harm.truth.given_ids import GivenIds
from kafkasim.analysis.judging.harm.truth.resized import ResizedTopics
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import instance_of
from kafkasim.model import facts

NEW_MEMBER_SESSION_US = 300_000_000
"""The session of a member before its first generation (classicGroupNewMemberJoinTimeoutMs)."""

NEVER = 1 << 62

SAME_SUBSCRIPTION = "same"
OTHER_ASSIGNMENT = "assignment"
OTHER_SUBSCRIPTION = "subscription"
"""How a JoinGroup differs from its sender's last one. The coordinator compares the bytes of the
subscription, which hold the generation that the member knew and the partitions that it owned
(ConsumerProtocolSubscription), and of a sticky assignor the generation of the last assignment
(StickyAssignor.subscriptionUserData)."""

STICKY = "sticky"
"""How the names of the sticky assignors end."""


GROUP_IS_GONE = "GROUP_ID_NOT_FOUND: group "
"""How the error begins that ends a member of a group that its coordinator does not have."""

REMOVED = ("expired", "deleted", "empty")
"""Why a coordinator tells that a group is dead which it has deleted from its log."""

FENCED = "FENCED_INSTANCE_ID: group "
"""How the error begins that ends a static member which another one has replaced."""

NOT_CONVERTED = "UNKNOWN_SERVER_ERROR: group "
"""How the error begins that ends a member for which a classic group could not be converted."""

WAS_LOADED = "COORDINATOR_LOAD_IN_PROGRESS: group "
"""How the error begins that ends a member whose SyncGroup met a coordinator that loads."""


def lost_group(reason: str) -> tuple[str, ...]:
    """Return the group whose loss has failed an application, if that is the reason."""
    return (reason.removeprefix(GROUP_IS_GONE),) if reason.startswith(GROUP_IS_GONE) else ()


@dataclass(slots=True)
class GroupMember:
    """One member, as far as its requests and assignments tell."""

    topics: tuple[str, ...] = ()
    protocols: tuple[str, ...] = ()
    session_us: int = NEW_MEMBER_SESSION_US
    rebalance_us: int = 0
    instance_id: str | None = None
    joined_us: dict[str, int] = field(default_factory=dict[str, int])
    # by coordinator: when it got the last JoinGroup
    rack: str = ""
    generation: int = -1  # the last one, as its last JoinGroup says
    owned: tuple[str, ...] = ()  # what it kept for the rebalance, as its last JoinGroup says
    completed: int = -1  # the last generation whose assignment its application has taken
    host: str = ""  # of its application
    taken: bool = False  # an assignment, since its last JoinGroup
    to_revoke: int = -1  # the last generation whose assignment lacks some of what it owned
    took_us: int = -1  # when it took the place of another static member, −1 for never
    former_session_us: int = NEVER  # the session of that one

    def learn(self, t_us: int, node: str, fact: facts.MemberRequest) -> str:
        """Take over what a JoinGroup says; return how it differs from the one before."""
        self.joined_us[node] = t_us
        wants = (fact.topics, fact.protocols)
        sticky = self.taken and any(name.endswith(STICKY) for name in fact.protocols)
        same = (fact.generation, fact.owned) == (self.generation, self.owned) and not sticky
        told = OTHER_SUBSCRIPTION if wants != (self.topics, self.protocols) else (
            SAME_SUBSCRIPTION if same else OTHER_ASSIGNMENT
        )  # fmt: skip
        self.taken = False
        self.topics, self.protocols = wants
        self.generation = fact.generation
        self.session_us = fact.session_timeout_ms * 1000
        self.rebalance_us = fact.rebalance_timeout_ms * 1000
        self.instance_id = fact.instance_id
        self.owned, self.rack = fact.owned, fact.rack
        return told

    def takes_place_of(self, former: GroupMember, t_us: int) -> None:
        """Note that the coordinator gives it the place of another static member."""
        self.took_us, self.former_session_us = t_us, former.session_us

    def allowed_us(self, heard_us: int) -> int:
        """Return how long the coordinator has to wait for it, since it heard it or it came.

        A static member's new id begins with the session of the old one: ClassicGroup
        .replaceStaticMember copies it, and the timer is scheduled before the JoinGroup's timeouts
        are taken over (GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin). A
        Heartbeat or the next generation gives it its own. So may a commit, which no fact tells of:
        the shorter one of the two is never too long.
        """
        if heard_us == self.took_us:
            return min(self.session_us, self.former_session_us)
        return self.session_us


class GroupMembers:
    """All members of all groups.

    A static member that comes back has another member id, and may have other timeouts. The old id
    keeps what it told: the coordinator may give it back (harm/truth/reverts.py), or find it in the
    log; a deposed coordinator goes on with it.
    """

    def __init__(self, trace: FactSource) -> None:
        self._members: dict[tuple[str, str], GroupMember] = {}
        # By group and group.instance.id: who joined last with it, and without a member id.
        self._statics: dict[tuple[str, str], GroupMember] = {}
        self._patterns: dict[tuple[str, str], None] = {}  # groups and hosts that match patterns
        self._given = GivenIds(trace)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.MemberIdReverted, self._on_reverted)
        trace.subscribe(facts.ConsumerAssigned, self._on_assigned)
        trace.subscribe(facts.GroupAssigned, self._on_group_assigned)
        trace.subscribe(facts.SubscribedByPattern, self._on_pattern)

    def by_pattern(self, group: str, member_id: str) -> bool:
        """Return whether a member finds its topics by a pattern, in the metadata that it has."""
        return (group, self.member(group, member_id).host) in self._patterns

    def hear(self, t_us: int, node: str, fact: facts.MemberRequest) -> tuple[GroupMember, str]:
        """Return the member that sent a request, and how its JoinGroup differs from its last."""
        joins = fact.api == "JoinGroup"
        if joins and not fact.member_id and fact.instance_id is not None:
            member = self._statics[fact.group, fact.instance_id] = GroupMember()
        elif joins and fact.member_id and fact.instance_id is None:
            member = self._members.setdefault((fact.group, fact.member_id), GroupMember())
        else:
            member = self.member(fact.group, fact.member_id, fact.instance_id)
        return member, member.learn(t_us, node, fact) if joins else ""

    def member(self, group: str, member_id: str, instance_id: str | None = None) -> GroupMember:
        """Return a member. A static one joins without an id; the next new id is that of the join.

        Kafka makes it of the group.instance.id and a random part. A static classic member that
        joins a consumer group gets a random one (harm/truth/given_ids.py). A dynamic member's id
        begins with its client.id, which may be another one's group.instance.id: its JoinGroup,
        which names none, tells that it is dynamic (:meth:`hear`; KIP-394: it joins under its id).
        """
        known = self._members.get((group, member_id))
        if known is not None and (member_id or instance_id is None):
            return known
        if instance_id is None:
            join = self._given.join(group, member_id)
            instance = instance_of(member_id) if join is None else join.instance_id or ""
        else:
            instance = instance_id
        known = self._statics.get((group, instance)) or GroupMember()
        if member_id or instance_id is None:
            self._members[group, member_id] = known
        return known

    def joined(self, node: str, fact: facts.GroupState) -> dict[str, int]:
        """Return when the coordinator on a node got the last JoinGroup of each member, if any.

        The session of a static member that takes the place of another one begins then, before the
        log has the change (GroupMetadataManager.updateStaticMemberThenRebalanceOrCompleteJoin).
        """
        joins = {each: self.member(fact.group, each).joined_us for each in fact.member_ids}
        return {each: times[node] for each, times in joins.items() if node in times}

    def _on_state(self, _s: int, _t: int, _node: str, fact: facts.GroupState) -> None:
        for member_id in fact.member_ids:
            self.member(fact.group, member_id)  # a new id belongs to the last JoinGroup until now

    def _on_reverted(self, _s: int, t: int, node: str, fact: facts.MemberIdReverted) -> None:
        self.member(fact.group, fact.member_id).joined_us[node] = t  # its session begins anew

    def _on_assigned(self, _s: int, _t: int, node: str, fact: facts.ConsumerAssigned) -> None:
        member = self.member(fact.group, fact.member_id)
        member.completed, member.host, member.taken = fact.generation, node, True

    def _on_pattern(self, _s: int, _t: int, node: str, fact: facts.SubscribedByPattern) -> None:
        self._patterns[fact.group, node] = None

    def _on_group_assigned(self, _s: int, _t: int, _n: str, fact: facts.GroupAssigned) -> None:
        member = self.member(fact.group, fact.member_id)
        if not set(member.owned).issubset(fact.assignment):
            member.to_revoke = fact.generation


class BlankMetadata:
    """Whose metadata was without any topic, and until when.

    A client's after it has rebootstrapped. A ZooKeeper broker's from its start until it accepts the
    first UpdateMetadata; it registers, and serves clients, before that.
    """

    def __init__(self, trace: FactSource) -> None:
        self._clients: dict[str, int] = {}  # host -> when
        self._brokers: dict[str, int] = {}  # broker -> until when, since its last start
        trace.subscribe(facts.Rebootstrapped, self._on_rebootstrapped)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.ControlRequest, self._on_control)

    def client(self, host: str, since_us: int) -> bool:
        """Return whether the client on a host has had no metadata since then."""
        return self._clients.get(host, -1) >= max(since_us, 0)

    def broker(self, since_us: int) -> bool:
        """Return whether any broker in ZooKeeper mode has had no metadata since then."""
        return any(until >= since_us for until in self._brokers.values())

    def _on_rebootstrapped(self, _s: int, t: int, node: str, _fact: facts.Rebootstrapped) -> None:
        self._clients[node] = t

    def _on_started(self, _s: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        if node.startswith("broker-"):
            self._brokers[node] = NEVER

    def _on_stopped(self, _s: int, t: int, node: str, _fact: facts.HostStopped) -> None:
        self._end(node, t)

    def _on_control(self, _s: int, t: int, node: str, fact: facts.ControlRequest) -> None:
        if fact.api == "UpdateMetadata" and fact.error == "NONE":
            self._end(node, t)

    def _end(self, node: str, t: int) -> None:
        if self._brokers.get(node) == NEVER:
            self._brokers[node] = t


class StaticJoins:
    """Which static members another process has replaced: it joined with their group.instance.id.

    The coordinator gives the id to the process that joins without a member id
    (GroupMetadataManager.classicGroupJoinNewStaticMember). The former member is fenced; the new one
    is, if the coordinator has to take that back.
    """

    def __init__(self, trace: FactSource) -> None:
        self._started: dict[str, int] = {}  # host -> row
        self._told: dict[tuple[str, str], str] = {}  # group and host -> its member id since then
        self._placed: dict[tuple[str, str], int] = {}  # group and member -> row of its assignment
        # By group and group.instance.id: rows of the last two joins without a member id.
        self._joins: dict[tuple[str, str], tuple[int, int]] = {}
        # By group: the new ids that gave way to the old ones, with the row of the last such join.
        self._reverted: dict[str, list[tuple[str, int]]] = {}
        trace.subscribe(facts.MemberIdReverted, self._on_reverted)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.ConsumerAssigned, self._on_assigned)
        trace.subscribe(facts.GroupAssigned, self._on_group_assigned)
        trace.subscribe(facts.MemberRequest, self._on_request)

    def replaced(self, node: str, group: str) -> bool:
        """Return whether the member on a host was replaced after its coordinator had placed it.

        A host that was never told its member id began to join before another process did, so
        there are two joins with one group.instance.id since it started. No fact tells which id
        that host has, so two joins with any id of the group count.
        """
        member = self._told.get((group, node))
        if member is None:
            since = self._started.get(node, -1)
            return any(
                before > since for (name, _), (before, _) in self._joins.items() if name == group
            )
        _, last = self._joins.get((group, instance_of(member)), (-1, -1))
        return last > self._placed.get((group, member), last)

    def reverted(self, node: str, group: str) -> bool:
        """Return whether the member on a host gave way to the id that it had in another process.

        A host that was never told its member id has joined since it started. Again joins with any
        id of the group count.
        """
        member, since = self._told.get((group, node)), self._started.get(node, -1)
        return any(
            joined > since if member is None else new_id == member
            for new_id, joined in self._reverted.get(group, ())
        )

    def _on_started(self, seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._started[node] = seq
        for known in [known for known in self._told if known[1] == node]:
            del self._told[known]

    def _on_assigned(self, _s: int, _t: int, node: str, fact: facts.ConsumerAssigned) -> None:
        self._told[fact.group, node] = fact.member_id

    def _on_group_assigned(self, seq: int, _t: int, _n: str, fact: facts.GroupAssigned) -> None:
        self._placed.setdefault((fact.group, fact.member_id), seq)

    def _on_reverted(self, _s: int, _t: int, _n: str, fact: facts.MemberIdReverted) -> None:
        _, last = self._joins.get((fact.group, fact.instance_id or ""), (-1, -1))
        self._reverted.setdefault(fact.group, []).append((fact.new_member_id, last))

    def _on_request(self, seq: int, _t: int, _n: str, fact: facts.MemberRequest) -> None:
        if fact.api == "JoinGroup" and not fact.member_id and fact.instance_id is not None:
            _, last = self._joins.get((fact.group, fact.instance_id), (-1, -1))
            self._joins[fact.group, fact.instance_id] = (last, seq)


class DeletedGroups:
    """Which consumers were members of a group that its coordinator has deleted since.

    A coordinator deletes a group without members and offsets when it looks for expired offsets, or
    when an operator asks (GroupMetadataManager.maybeDeleteGroup, deleteGroups). A member that was
    removed before, and has not heard of it, then gets GROUP_ID_NOT_FOUND for its commit or for its
    ConsumerGroupHeartbeat. A consumer that joins, or commits without a group, does not.
    """

    def __init__(self, trace: FactSource) -> None:
        self._told: dict[tuple[str, str], str] = {}  # group and host -> its member id, since then
        self._listed: dict[tuple[str, str], int] = {}  # group and member -> the last row with it
        self._deleted: dict[str, int] = {}  # group -> row of its last deletion
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.ConsumerAssigned, self._on_assigned)
        trace.subscribe(facts.GroupState, self._on_state)

    def deleted(self, node: str, group: str) -> bool:
        """Return whether the group was deleted after a coordinator had last told of its member."""
        member = self._told.get((group, node))
        if member is None:
            return False
        listed = self._listed.get((group, member))
        return listed is not None and self._deleted.get(group, -1) > listed

    def _on_started(self, _s: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        for known in [known for known in self._told if known[1] == node]:
            del self._told[known]

    def _on_assigned(self, _s: int, _t: int, node: str, fact: facts.ConsumerAssigned) -> None:
        self._told[fact.group, node] = fact.member_id

    def _on_state(self, seq: int, _t: int, _node: str, fact: facts.GroupState) -> None:
        for member in fact.member_ids:
            self._listed[fact.group, member] = seq
        if fact.state == "Dead" and fact.reason in REMOVED:
            self._deleted[fact.group] = seq


class Excuses:
    """Why an application may fail in a group though nobody has broken a promise.

    An assignor may fail where a topic's size has changed (harm/truth/resized.py). A static member
    is fenced when a coordinator that has loaded the group does not know the id that its predecessor
    gave it, which may be the same broker before it lost the partition or
    crashed: in a rebalance that id is in memory only (GroupCoordinator
    .updateStaticMemberAndRebalance). The predecessor may also give it later, until it hears that it
    is deposed. A classic consumer does not expect what
    the coordinator of KRaft mode answers to SyncGroup while it loads the group
    (GroupCoordinatorService.syncGroup, SyncGroupResponseHandler). And a static member is fenced
    when another process has its group.instance.id, which is an operator's mistake, or when the
    record with its id was not committed in time (harm/truth/reverts.py). A member that was removed
    commits, or sends its heartbeat, to a group that has been deleted meanwhile.

    Two more in a group that changes its protocol (KIP-848), to consumers of the new one. Its member
    that was fenced asks a group that is a classic one again (getOrMaybeCreateConsumerGroup). A
    classic group without a chosen assignor, in the join phase that comes after no members, cannot
    be converted (ConsumerGroup.fromClassicGroup). Either happens while the application's host runs.
    """

    def __init__(self, trace: FactSource) -> None:
        self._static = StaticJoins(trace)
        self._gone = DeletedGroups(trace)
        self._resized = ResizedTopics(trace)
        self._known: dict[str, dict[str, tuple[str, ...]]] = {}  # group -> broker -> its last ids
        self._loader: dict[str, str] = {}  # group -> the last broker that loaded it
        self._forgotten: dict[str, None] = {}  # groups of which a coordinator lacked some of them
        self._started: dict[str, int] = {}  # host -> when
        self._belongs: dict[str, dict[str, None]] = {}  # host -> its groups since then
        self._classic: dict[str, int] = {}  # group -> when it last became or acted as a classic one
        self._unchosen: dict[str, int] = {}  # group -> until when it had members and no assignor
        self._synced: dict[str, int] = {}  # group -> when SyncGroup last met a loading coordinator
        trace.subscribe(facts.LoadInProgress, self._on_load_in_progress)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.ConsumerAssigned, self._on_assigned)
        trace.subscribe(facts.GroupConverted, self._on_converted)
        self.in_zookeeper: dict[str, None] = {}  # groups of old consumers, whose offsets are there
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.PartitionOwner, self._on_owner)

    def cover(self, node: str, fact: facts.ApplicationFailed) -> bool:
        """Return whether the failure of the application on a host has such a reason."""
        if fact.reason.startswith(FENCED):
            group = fact.reason.removeprefix(FENCED)
            lost = self._static.replaced(node, group) or self._static.reverted(node, group)
            return lost or group in self._forgotten
        since = self._started.get(node, 0)
        if fact.reason.startswith(GROUP_IS_GONE):
            group = fact.reason.removeprefix(GROUP_IS_GONE)
            if group in self._belongs.get(node, ()) and self._classic.get(group, -1) >= since:
                return True
            return self._gone.deleted(node, group)
        if fact.reason.startswith(WAS_LOADED):
            return self._synced.get(fact.reason.removeprefix(WAS_LOADED), -1) >= since
        if fact.reason.startswith(NOT_CONVERTED):
            group = fact.reason.removeprefix(NOT_CONVERTED)
            unchosen = self._unchosen.get(group, -1) >= since
            return unchosen or self._resized.fails_coordinator(group)
        failed = fact.exception == "AssignorError"
        return failed and self._resized.fails_leader(tuple(self._belongs.get(node, ())))

    def _on_load_in_progress(self, _s: int, t: int, _n: str, fact: facts.LoadInProgress) -> None:
        if fact.request == "SyncGroup":
            self._synced[fact.group] = t

    def _on_owner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        self.in_zookeeper[fact.group] = None

    def _on_started(self, _seq: int, t: int, node: str, _fact: facts.HostStarted) -> None:
        self._started[node] = t
        self._belongs.pop(node, None)

    def _on_assigned(self, _s: int, _t: int, node: str, fact: facts.ConsumerAssigned) -> None:
        self._belongs.setdefault(node, {})[fact.group] = None

    def _on_converted(self, _seq: int, t: int, _node: str, fact: facts.GroupConverted) -> None:
        if fact.protocol == "classic":
            self._classic[fact.group] = t

    def _on_state(self, _seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        if fact.state in ("PreparingRebalance", "CompletingRebalance"):
            self._classic[fact.group] = t
        if fact.state == "PreparingRebalance" and fact.member_ids and not fact.protocol:
            self._unchosen[fact.group] = NEVER
        elif self._unchosen.get(fact.group) == NEVER:
            self._unchosen[fact.group] = t
        known = self._known.setdefault(fact.group, {})
        loader = self._loader.get(fact.group, node)
        if fact.reason == "loaded":
            self._loader[fact.group] = node
            for broker, members in known.items():
                # Its own, too, if nobody else has loaded the group since.
                told = broker != node or loader == node
                if told and not set(members).issubset(fact.member_ids):
                    self._forgotten[fact.group] = None
        elif loader != node and not set(fact.member_ids).issubset(known.get(loader, ())):
            self._forgotten[fact.group] = None
        known[node] = fact.member_ids
