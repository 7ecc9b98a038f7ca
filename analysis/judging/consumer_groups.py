"""Consumer groups (KIP-848): exclusive ownership, needless rebalances and needless evictions.

In a rebalance of such a group a member stops only the partitions that it has to give up, so no
phase has a limit. The judge checks these rules, in the committed view of the coordinator:

    EXCL                 a partition has one owner at a time, whatever the member epochs
    needless-rebalance   the group epoch rises, and nobody joined, left or subscribed otherwise,
                         and no topic of the group has changed since it took its last epoch, maybe
                         at another coordinator, whose log tells the topics: whoever loads it looks
                         them up anew (ModernGroup.hasMetadataExpired)
    needless-eviction    a member is gone without leaving, silence, or a revocation that is overdue;
                         a classic member also if its JoinGroup is not answered, or no SyncGroup
                         follows, within its rebalance timeout (GroupMetadataManager
                         .classicGroupJoinToConsumerGroup cancels one timer when the answer is
                         committed, and begins the other, which the answer to the SyncGroup ends
                         (harm/truth/consumer_groups/syncs.py); a Heartbeat renews neither. The
                         first timer runs since a Heartbeat was told that the group has another
                         epoch (classicGroupHeartbeatToConsumerGroup);
                         harm/truth/consumer_groups/removals.py has the one reason to go twice
"""

from __future__ import annotations

from kafkasim.analysis.judging.harm.truth.consumer_groups.expressions import Expressions
from kafkasim.analysis.judging.harm.truth.consumer_groups.owned import Owned
from kafkasim.analysis.judging.harm.truth.consumer_groups.removals import Removals
from kafkasim.analysis.judging.harm.truth.consumer_groups.syncs import Syncs
from kafkasim.analysis.judging.harm.truth.consumer_groups.topic_changes import TopicChanges
from kafkasim.analysis.judging.harm.truth.consumer_groups.views import (
    REVERTED,
    Member,
    View,
    next_view,
)
from kafkasim.analysis.judging.harm.truth.given_ids import GivenIds
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import BrokerLimits, instance_of
from kafkasim.model import facts

HEARTBEAT = "ConsumerGroupHeartbeat"
CLASSIC = ("JoinGroup", "SyncGroup", "Heartbeat")
"""Requests by which a classic member is heard, while its group is migrated."""

ANSWERED_LATE = ("JoinGroup", "SyncGroup")
"""With those of a classic member its session begins anew when the answer is committed, not before
(GroupMetadataManager.classicGroupJoinToConsumerGroup, classicGroupSyncToConsumerGroup)."""

JOIN, LEAVE = 0, -1
"""Member epochs of a heartbeat."""


def tells_all(fact: facts.MemberRequest) -> bool:
    """Return whether a heartbeat has all fields, so that it has topics even if there are none.

    A client tells all when it joins, and again after a heartbeat that failed
    (ConsumerHeartbeatRequestManager.HeartbeatState.reset); one that looks for the topics of its
    pattern has none at first.
    """
    return fact.api == HEARTBEAT and (fact.generation == JOIN or fact.rebalance_timeout_ms > 0)


RESUMED = ("loaded", REVERTED)
"""Why a group is what it had been before."""

METADATA_LAG_US = 30_000_000
"""How old a coordinator's metadata may be; one that lags for longer is fenced and resigns."""


class ConsumerGroups:
    """Follows every consumer group at every coordinator."""

    def __init__(self, cluster: TracedCluster, limits: BrokerLimits) -> None:
        self.cluster = cluster
        self._session_us = limits.consumer_session_us
        # By node and group. A deposed coordinator may hold as classic what the next one has loaded
        # as a consumer group, since a conversion was not committed.
        self._groups: dict[tuple[str, str], None] = {}  # those of this protocol
        self._classic: dict[tuple[str, str], facts.GroupState] = {}  # the last state as classic
        self._members: dict[tuple[str, str], Member] = {}
        self._views: dict[tuple[str, str], View] = {}  # by node and group
        # (Group, epoch) -> when the coordinator of the time took it, when that was so last.
        self._taken: dict[tuple[str, int], int] = {}
        self._expressions = Expressions()
        self._coordinators: dict[int, tuple[int, str]] = {}  # partition -> (leader epoch, node)
        self._owned = Owned()
        self._created: dict[str, None] = {}  # ids of topics
        self._epochs: dict[tuple[str, str], int] = {}  # (group, member id) -> its epoch, when told
        self._drifting: dict[str, None] = {}  # hosts
        trace = cluster.trace
        self._given = GivenIds(trace)
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.GroupConverted, self._on_converted)
        trace.subscribe(facts.GroupAssigned, self._on_assigned)
        trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.TopicCreated, self._on_topic_created)
        trace.subscribe(facts.FaultStarted, self._on_fault)
        self._topics = TopicChanges(cluster)
        self._syncs = Syncs(cluster, limits)
        self._removals = Removals(cluster, limits.commit_timeout_us)  # hears of them after this

    def has(self, node: str, group: str) -> bool:
        """Return whether a group uses this protocol, as the coordinator on a node has it."""
        return (node, group) in self._groups

    # What the coordinator hears.

    def _on_request(self, seq: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        view = self._views.get((node, fact.group))
        if fact.api == "JoinGroup" and (view is None or not view.members):
            self._groups.pop((node, fact.group), None)  # an empty one gives way
        if fact.api == HEARTBEAT and not self._is_classic(node, fact.group):
            self._groups[node, fact.group] = None
        leaves = fact.api == HEARTBEAT and fact.generation == LEAVE
        if (leaves or fact.api == "LeaveGroup") and view is not None:
            view.left[fact.member_id] = None
        if fact.generation < JOIN and fact.api == HEARTBEAT:
            return
        member = self._members.setdefault((fact.group, fact.member_id), Member())
        if fact.api in CLASSIC:
            member.session_us = fact.session_timeout_ms * 1000 or member.session_us
        elif fact.api == HEARTBEAT:
            member.session_us = 0
        else:
            return
        joins = fact.api == HEARTBEAT and fact.generation == JOIN
        if (fact.topics or tells_all(fact)) and fact.topics != member.topics:
            member.topics = fact.topics
            if any(topic.startswith("/") for topic in fact.topics):
                self._expressions.tell(fact.group, t)
            if view is not None:
                view.told_us = t
        if fact.rebalance_timeout_ms:
            member.rebalance_us = fact.rebalance_timeout_ms * 1000
        member.instance_id = fact.instance_id or member.instance_id
        if fact.instance_id is None and (joins or fact.api == "JoinGroup"):
            member.dynamic = True
        if view is not None and not self._is_outdated(node, fact):
            self._hear(seq, t, view, fact)

    def _is_outdated(self, node: str, fact: facts.MemberRequest) -> bool:
        """Return whether a classic member names an epoch of before its present one.

        The coordinator refuses that, and the session goes on as it was
        (throwIfGenerationIdUnmatched). The members of a classic group that becomes a consumer group
        have its generation for their epoch.
        """
        told = self._epochs.get((fact.group, fact.member_id), 0)
        epoch = max(told, self._former_generation(node, fact.group))
        return fact.api in ("Heartbeat", "SyncGroup") and fact.generation < epoch

    def _is_classic(self, node: str, group: str) -> bool:
        """Return whether a group is a classic one with members: no heartbeat takes its name."""
        known = self._classic.get((node, group))
        return (node, group) not in self._groups and known is not None and bool(known.member_ids)

    def _on_converted(self, _s: int, _t: int, node: str, fact: facts.GroupConverted) -> None:
        """Take a group over from the classic protocol, or give it back.

        A deposed coordinator converts it for itself alone; who owns what is not its to forget.
        """
        self._views.pop((node, fact.group), None)
        if self._coordinates(node, fact.group):
            self._owned.forget(fact.group)
        if fact.protocol == "classic":
            self._groups.pop((node, fact.group), None)
        else:
            self._groups[node, fact.group] = None

    def _hear(self, seq: int, t: int, view: View, fact: facts.MemberRequest) -> None:
        member_id = fact.member_id
        session_us = self._session_of(view, fact.group, member_id)
        if fact.api in ANSWERED_LATE:
            view.joins.setdefault(member_id, []).append((fact.api, seq, t))
        if fact.api == "SyncGroup":
            view.called.pop(member_id, None)
        elif fact.api == "Heartbeat" and fact.generation < view.epoch:
            view.called.setdefault(member_id, t)
        asked = view.asked.pop(member_id, None)
        joins = fact.api == "JoinGroup" or (fact.api == HEARTBEAT and fact.generation == JOIN)
        gone_us = t if joins else view.gone.get(member_id, t)
        since_us = view.heard.get(member_id, gone_us) if asked is None else asked
        if t - since_us < session_us:  # afterwards it is too late
            if fact.api == "SyncGroup" and asked is not None:
                view.heard[member_id] = asked  # its JoinGroup has been answered
                view.loaded.pop(member_id, None)
            elif fact.api not in ANSWERED_LATE:
                view.loaded.pop(member_id, None)
            (view.asked if fact.api in ANSWERED_LATE else view.heard)[member_id] = t
        for known in view.members if joins and fact.instance_id else ():
            other = self._members.get((fact.group, known), Member())
            own = other.instance_id or ("" if other.dynamic else instance_of(known))
            if known != member_id and own == fact.instance_id:
                view.replaced[known] = None

    def _session_of(self, view: View, group: str, member_id: str) -> int:
        """Return a member's session; a load begins those of the brokers (onLoaded)."""
        if member_id in view.loaded:
            return self._session_us
        return self._members.get((group, member_id), Member()).session_us or self._session_us

    # What it does.

    def _on_state(self, seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        if fact.reason == "loaded":
            self._on_loaded_group(node, fact)
        if self._coordinates(node, fact.group):
            self._owned.has_members(fact.group, fact.member_ids)
        key = (node, fact.group)
        if key not in self._groups:
            self._classic[key] = fact
            return
        before = self._views.get(key)
        if before is None or fact.reason == "loaded":
            before = None
        else:
            self._learn_ids(fact, before)
        if before is not None and fact.reason != REVERTED and node not in self._drifting:
            self._check_members(seq, t, node, fact, before)
            self._check_epoch(seq, t, node, fact, before)
        self._views[key] = next_view(t, fact, before, self._since(t, node, fact, before))
        if fact.reason not in RESUMED and self._subscribes_later(fact, before):
            self._expressions.tell(fact.group, t)

    def _since(self, t: int, node: str, fact: facts.GroupState, before: View | None) -> int:
        """Return when the group took its epoch. What is loaded or taken back, it had before."""
        key = (fact.group, fact.generation)
        if fact.reason in RESUMED:
            return self._taken.get(key, t)
        if before is not None and fact.generation <= before.epoch:
            return before.since_us
        if self._coordinates(node, fact.group):
            self._taken[key] = t
        return t

    def _learn_ids(self, fact: facts.GroupState, before: View) -> None:
        """Take what a static member told that had no id for what its new id has told."""
        for member_id in fact.member_ids:
            if member_id in before.members or self._given.join(fact.group, member_id) is None:
                continue
            told = self._members.pop((fact.group, ""), None)
            if told is not None:
                self._members[fact.group, member_id] = told
            if "" in before.asked:
                before.asked[member_id] = before.asked.pop("")
            if "" in before.joins:
                before.joins[member_id] = before.joins.pop("")

    def _subscribes_later(self, fact: facts.GroupState, before: View | None) -> bool:
        """Return whether a member has joined whose expression is to be resolved.

        The last member of an expression takes what it matched with it, so that a member that joins
        again with the same one has it resolved anew. Had it been known, the epoch rises at once
        (GroupMetadataManager.maybeUpdateRegularExpressions).
        """
        members = () if before is None else before.members
        return (before is None or fact.generation == before.epoch) and any(
            topic.startswith("/")
            for member_id in fact.member_ids
            if member_id not in members
            for topic in self._members.get((fact.group, member_id), Member()).topics
        )

    def _on_loaded_group(self, node: str, fact: facts.GroupState) -> None:
        """Take over what the log says: a conversion may not have been committed.

        A classic group with members has a leader, a consumer group has none.
        """
        if self._coordinates(node, fact.group):
            self._owned.forget(fact.group)
        if fact.group_leader:
            self._groups.pop((node, fact.group), None)
            self._views.pop((node, fact.group), None)
        elif fact.member_ids:
            self._groups[node, fact.group] = None

    def _check_members(
        self, seq: int, t: int, node: str, fact: facts.GroupState, before: View
    ) -> None:
        """Check that each member that is gone has left, fallen silent, or not revoked in time."""
        for member_id in before.members:
            silent_us = t - before.heard[member_id]
            rebalance_us = self._members.get((fact.group, member_id), Member()).rebalance_us
            late = before.unstable_us is not None and t - before.unstable_us >= rebalance_us
            if (
                member_id in fact.member_ids
                or member_id in before.left
                or member_id in before.replaced
                or silent_us >= self._session_of(before, fact.group, member_id)
                or late
                or self._is_overdue(t, node, fact.group, member_id)
                or self._removals.repeats(node, fact.group, member_id, t)
            ):
                continue
            self._violated(
                "needless-eviction", seq, t, fact.group,
                f"{member_id} is no member of group {fact.group} any more, {silent_us} µs after the"
                f" coordinator heard it ({fact.reason})",
            )  # fmt: skip

    def _is_overdue(self, t: int, node: str, group: str, member_id: str) -> bool:
        """Return whether a classic member's JoinGroup or SyncGroup is overdue."""
        view = self._views[node, group]
        joined_us = self._syncs.awaited_since(node, group, view.joins.get(member_id, []))
        if joined_us is None:
            return False
        since_us = min(joined_us, *[each.get(member_id, t) for each in (view.heard, view.called)])
        return t - since_us >= self._members.get((group, member_id), Member()).rebalance_us

    def _check_epoch(
        self, seq: int, t: int, node: str, fact: facts.GroupState, before: View
    ) -> None:
        """Check that something has changed when the group epoch rises."""
        topics = {
            topic: None
            for member_id in (*before.members, *fact.member_ids)
            for topic in self._members.get((fact.group, member_id), Member()).topics
        }
        if (
            fact.generation <= before.epoch
            or before.members != fact.member_ids
            or before.told_us == t
            or self._topics.any_since(before.since_us - METADATA_LAG_US, topics)
            or self._expressions.explain(
                fact.group, before.since_us, self._coordinates(node, fact.group)
            )
        ):
            return
        self._violated(
            "needless-rebalance", seq, t, fact.group,
            f"group {fact.group} goes from epoch {before.epoch} to {fact.generation}, and no"
            f" member, subscription or topic has changed ({fact.reason})",
        )  # fmt: skip

    def _on_assigned(self, seq: int, t: int, node: str, fact: facts.GroupAssigned) -> None:
        """EXCL: a partition has one owner, in the committed view of the present coordinator.

        A coordinator that loads a group tells all that its members own, once that is committed. The
        log may hold more than the previous coordinator could tell: what it had not committed, also
        that the members have left and the group is deleted, of which the load says nothing.
        Likewise, what was owned before the group was a classic one may be told afterwards, and that
        a member has nothing any more while the group is a classic one.
        """
        group = fact.group
        if not self._coordinates(node, group):
            return
        self._epochs[group, fact.member_id] = fact.generation
        self._owned.take(group, fact.member_id)
        former = self._former_generation(node, group)
        if (node, group) not in self._groups or fact.generation < former:
            return
        for name, owner, row in self._owned.give(group, fact.member_id, fact.assignment, seq):
            self._violated(
                "EXCL", seq, t, group,
                f"consumer group {group}: {owner} and {fact.member_id} both own {name}",
                promise=row,
            )  # fmt: skip

    def _former_generation(self, node: str, group: str) -> int:
        """Return the last generation of a consumer group's time as a classic one; 0 for none."""
        known = self._classic.get((node, group))
        return 0 if known is None or known.state == "Dead" else known.generation

    # Who serves.

    def _coordinates(self, node: str, group: str) -> bool:
        """Return whether a node is the present coordinator of a group."""
        return self._coordinators.get(self.cluster.group_key(group)[1], (-1, ""))[1] == node

    def _on_loaded(self, _s: int, _t: int, node: str, fact: facts.CoordinatorLoaded) -> None:
        if fact.loaded:
            known = self._coordinators.get(fact.partition, (-1, ""))
            self._coordinators[fact.partition] = max(known, (fact.leader_epoch, node))
            for key in [key for key in self._classic if key[0] == node]:
                if self.cluster.group_key(key[1])[1] == fact.partition:
                    del self._classic[key]  # the log tells of it anew, or nothing
            if self._coordinators[fact.partition][1] == node:
                home = self.cluster.group_key
                self._owned.forget_gone(lambda group: home(group)[1] == fact.partition)
            return
        for key in [key for key in self._views if key[0] == node]:
            if self.cluster.group_key(key[1])[1] == fact.partition:
                del self._views[key]

    def _on_stopped(self, _s: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        for key in [key for key in self._views if key[0] == node]:
            del self._views[key]

    def _on_fault(self, _s: int, _t: int, _n: str, fact: facts.FaultStarted) -> None:
        """Judge no more times on a host whose clock runs faster or slower than others."""
        if fact.fault == "clock-drift":
            self._drifting[fact.target] = None

    # Topics.

    def _on_topic_deleted(self, _s: int, _t: int, _n: str, fact: facts.TopicDeleted) -> None:
        self._owned.forget_topic(fact.topic)

    def _on_topic_created(self, _s: int, _t: int, _n: str, fact: facts.TopicCreated) -> None:
        """Nobody owns a partition of a new topic: what was told is of the one of its name before.

        A coordinator may tell of that one after its deletion, which it has not heard of.
        """
        if fact.topic_id not in self._created:
            self._created[fact.topic_id] = None
            self._owned.forget_topic(fact.topic)

    def _violated(
        self, name: str, seq: int, t: int, group: str, message: str, promise: int = -1
    ) -> None:
        key = self.cluster.group_key(group)
        lost = self.cluster.lost_between(key, promise, seq)
        self.cluster.violated(name, seq, t, key, message, lost)
