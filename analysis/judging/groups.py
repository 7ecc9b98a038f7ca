"""Needless harm to groups: rebalances, removals, coordinators and offsets (README.md).

A rebalance stops all members. So the requests that reached the coordinator must give a reason for
it, and it must end within the members' timeouts. All bounds count from facts of the coordinator's
own host, so messages that the network delays, loses or repeats are no excuse. Pauses of the host
extend the bounds.

    needless-rebalance   nobody joined, left, subscribed otherwise or fell silent
    long-rebalance       a phase outlasts rebalance.timeout (max.poll.interval.ms)
    needless-eviction    a member is gone without LeaveGroup, silence, or a missed request
    vanished-offset      a committed offset is not with the coordinator at the end
    stale-coordinator    a broker serves a group after it has applied that another one leads
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.group_members import (
    OTHER_SUBSCRIPTION,
    SAME_SUBSCRIPTION,
    BlankMetadata,
    GroupMembers,
)
from kafkasim.analysis.judging.harm.truth.reverts import Reverts
from kafkasim.analysis.judging.harm.truth.standstills import Standstills
from kafkasim.analysis.judging.harm.truth.tenures import AwaitedSyncs, EndedGenerations, Tenure
from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.readers.removed_offsets import DeletedOffsets, Offset
from kafkasim.analysis.judging.source import BrokerLimits
from kafkasim.model import facts

PREPARING, COMPLETING, STABLE = "PreparingRebalance", "CompletingRebalance", "Stable"

SLACK_US = 1_000_000
"""What a host may need beyond a deadline: its lanes are busy, or its disk stalls."""
STALE_METADATA_US = 10_000_000
"""How old a leader's metadata may be when it assigns: a retry after each failed request."""


class Groups:
    """Follows every group at every coordinator."""

    def __init__(
        self, cluster: TracedCluster, limits: BrokerLimits, elsewhere: Callable[[str, str], bool]
    ) -> None:
        """``elsewhere(node, group)`` says that a group is of the consumer protocol (KIP-848) there.

        Its coordinator and its offsets are judged here, the rest in consumer_groups.py.
        """
        self._elsewhere = elsewhere
        self.cluster = cluster
        self._limits = limits
        self._known = GroupMembers(cluster.trace)
        self._tenures: dict[tuple[str, str], Tenure] = {}  # (node, group)
        self._upgraded: dict[tuple[str, str], Tenure] = {}  # what they were, if that is taken back
        self._resized: dict[str, int] = {}  # topic -> when its partitions last changed
        self._sizes: dict[str, int] = {}  # topic id -> partitions
        self._racks_changed = False  # replicas moved, or a broker went or came, with clients there
        self._replicas: dict[tuple[str, int], tuple[int, ...]] = {}
        self._ended = EndedGenerations()
        self._drifting: dict[str, None] = {}  # hosts
        self._formed: dict[tuple[str, int], int] = {}  # (group, generation) -> when it began
        self._blank = BlankMetadata(cluster.trace)
        # (offsets partition, node) -> when the node learned that another broker leads it
        self._deposed: dict[tuple[int, str], int] = {}
        self._coordinator: dict[int, tuple[int, str]] = {}  # partition -> (leader epoch, node)
        self._resigned: dict[tuple[int, str], bool] = {}  # by partition and node
        self._committed: dict[Offset, tuple[int, int, facts.OffsetCommitted]] = {}  # -> row, time
        self._deletions = DeletedOffsets(cluster.trace)
        self._final: dict[tuple[str, str, int], None] = {}
        self._deleted: dict[str, None] = {}
        self._converted: dict[str, int] = {}  # group -> when it last changed its protocol
        self._end = (-1, -1)  # row and time of the run's last phase
        trace = cluster.trace
        self._reverts = Reverts(cluster, limits.commit_timeout_us, self._violated)
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.GroupConverted, self._on_converted)
        trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)
        trace.subscribe(facts.BecameFollower, self._on_follower)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.HostStopped, self._on_stopped)
        trace.subscribe(facts.TopicDeleted, self._on_topic_deleted)
        trace.subscribe(facts.TopicCreated, self._on_topic_created)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.FinalOffset, self._on_final_offset)
        trace.subscribe(facts.Phase, self._on_phase)
        trace.subscribe(facts.BrokerRegistration, self._on_registration)
        trace.subscribe(facts.FaultStarted, self._on_fault)
        self._standstills = Standstills(trace, self._on_standstill)

    # What the coordinator hears.

    def _on_request(self, seq: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        self._check_coordinator(seq, t, node, fact)
        tenure = self._tenures.get((node, fact.group))
        member_id = fact.member_id
        member, told = self._known.hear(t, node, fact)
        if tenure is None:
            return
        if fact.api == "JoinGroup":
            for known in tenure.members if fact.instance_id is not None else ():
                former = self._known.member(fact.group, known)
                if former.instance_id == fact.instance_id and known != member_id:
                    tenure.replaced[known] = None
                    if not member_id:
                        member.takes_place_of(former, t)
            tenure.longest_us = max(tenure.longest_us, member.rebalance_us)
        elif fact.api == "SyncGroup" and fact.generation == tenure.generation:
            tenure.synced = True
            tenure.syncs.missing.pop(member_id, None)
        elif fact.api == "LeaveGroup":
            tenure.left[member_id] = None
        elif fact.api == "Heartbeat" and fact.generation == tenure.generation:
            if t - tenure.heard.get(member_id, t) < member.session_us:  # afterwards it is too late
                tenure.heard[member_id] = t
        tenure.last = (t, fact, told)

    # What it does.

    def _on_converted(self, _s: int, t: int, node: str, fact: facts.GroupConverted) -> None:
        """Forget the group as it was; what is left of a consumer group has to rebalance.

        A group whose upgrade could not be appended goes on as it was: its members keep the sessions
        that they had. They were told of a rebalance, and what they have sent since was not heard by
        the classic group, so neither that phase nor the next rebalance is judged.
        """
        before = self._tenures.pop((node, fact.group), None)
        upgraded = self._upgraded.pop((node, fact.group), None)
        if fact.protocol == "classic" and fact.reason == "reverted" and upgraded is not None:
            upgraded.resumed = True
            self._tenures[node, fact.group] = upgraded
        elif fact.protocol == "consumer" and before is not None:
            self._upgraded[node, fact.group] = before
        self._converted[fact.group] = t

    def _on_state(self, seq: int, t: int, node: str, fact: facts.GroupState) -> None:
        if self._elsewhere(node, fact.group):
            self._ended.tell(fact)
            return
        key = (node, fact.group)
        before = self._tenures.get(key)
        if before is not None and fact.reason not in ("loaded", "reverted"):
            self._check_members(seq, t, node, fact, before)
            self._check_phase(seq, t, node, fact.group, before)
            if fact.state == PREPARING and before.state in (STABLE, COMPLETING):
                self._check_reason(seq, t, fact, before)
        self._ended.tell(fact)
        self._tenures[key] = self._next(t, node, fact, before)
        self._formed.setdefault((fact.group, fact.generation), t)

    def _next(self, t: int, node: str, fact: facts.GroupState, before: Tenure | None) -> Tenure:
        """Return the tenure in its new state."""
        fresh = before is None or fact.reason == "loaded" or fact.generation > before.generation
        begins = fresh or before is None or fact.state != before.state
        heard: dict[str, int] = {}
        if before is not None and not fresh:
            heard = {**self._known.joined(node, fact), **before.heard}
        waits = [self._known.member(fact.group, each).rebalance_us for each in fact.member_ids]
        longest_us = max(waits, default=0)
        syncs = AwaitedSyncs() if before is None or fresh else before.syncs
        if begins and fact.state == COMPLETING:
            syncs = AwaitedSyncs(t, longest_us, dict.fromkeys(fact.member_ids))
        return Tenure(
            fact.state,
            fact.generation,
            fact.member_ids,
            t if before is None or begins else before.since_us,
            leader=fact.group_leader,
            paused_us=0 if before is None or begins else before.paused_us,
            longest_us=longest_us,
            begun_us=longest_us if before is None or begins else before.begun_us,
            synced=not fresh and before is not None and before.synced,
            heard={each: heard.get(each, t) for each in fact.member_ids},
            loaded=fact.reason == "loaded" or (not fresh and before is not None and before.loaded),
            syncs=syncs,
            last=None if before is None else before.last,
            resumed=not fresh and before is not None and before.resumed,
        )

    def _check_members(
        self, seq: int, t: int, node: str, fact: facts.GroupState, before: Tenure
    ) -> None:
        """Check that each member that is gone has left, fallen silent, or missed a request."""
        if node in self._drifting:
            return
        unjoined = before.state == PREPARING and t - before.since_us >= before.begun_us
        for member_id in before.members:
            heard_us = before.heard[member_id]
            silent_us = t - heard_us
            if (
                member_id in fact.member_ids
                or unjoined
                or before.syncs.expired(member_id, t)
                or member_id in before.left
                or member_id in before.replaced
                or self._reverts.explain(node, fact, member_id, t)
                or silent_us >= self._known.member(fact.group, member_id).allowed_us(heard_us)
            ):
                continue
            self._violated(
                "needless-eviction", seq, t, fact.group,
                f"{member_id} is no member of group {fact.group} any more, {silent_us} µs after the"
                f" coordinator heard it and {t - before.since_us} µs after {before.state} began",
            )  # fmt: skip

    def _check_phase(self, seq: int, t: int, node: str, group: str, tenure: Tenure) -> None:
        """Check how long a phase of a rebalance has lasted."""
        phase = tenure.state in (PREPARING, COMPLETING) and not tenure.resumed
        if not phase or node in self._drifting:
            return
        members = [(each, self._known.member(group, each)) for each in tenure.members]
        static = {each: one.joined_us.get(node, -1) for each, one in members if one.instance_id}
        limit = tenure.longest_us
        if tenure.state == PREPARING:
            limit += self._limits.initial_delay_us
            if static:
                limit += max(one.session_us for _, one in members) + tenure.longest_us
                limit += tenure.awaited_us(static)
        else:
            limit += self._limits.commit_timeout_us
        lasted = t - tenure.since_us - tenure.paused_us
        if tenure.members and lasted > limit + SLACK_US:
            self._violated(
                "long-rebalance", seq, t, group,
                f"group {group} was in {tenure.state} for {lasted} µs; its members' timeouts allow"
                f" {limit}",
            )  # fmt: skip

    def _check_reason(self, seq: int, t: int, fact: facts.GroupState, before: Tenure) -> None:
        """Check that something has changed when a rebalance begins."""
        why = self._reason(t, fact, before)
        if not why:
            what = "no request" if before.last is None else f"{before.last[1].api}"
            self._violated(
                "needless-rebalance", seq, t, fact.group,
                f"group {fact.group} leaves {before.state} of generation {before.generation}, and"
                f" no member, subscription or partition has changed ({what} came last:"
                f" {fact.reason})",
            )  # fmt: skip

    def _reason(self, t: int, fact: facts.GroupState, before: Tenure) -> str:
        if before.members != fact.member_ids or before.left or before.replaced:
            return "members"
        if self._converted.get(fact.group) == t:
            return "the last member of the consumer protocol is gone"
        if before.resumed:
            return "its upgrade could not be appended"
        last = before.last
        if last is not None and last[0] == t and last[1].api == "JoinGroup":
            why = self._rejoin_reason(fact, before, last[1], last[2])
            if why:
                return why
        if before.state == COMPLETING and before.synced:
            return "the assignment was not stored"
        return ""

    def _rejoin_reason(
        self, fact: facts.GroupState, before: Tenure, request: facts.MemberRequest, told: str
    ) -> str:
        """Return why this JoinGroup has to start a rebalance, or ""."""
        if request.member_id not in before.members:
            return "members"
        who = request.member_id
        leads = who == before.leader and before.state == STABLE
        matches = told != SAME_SUBSCRIPTION and self._known.by_pattern(fact.group, who)
        if before.loaded and len(request.protocols) > 1:
            return "protocols"  # the log holds the chosen one alone (GroupMetadataValue)
        if before.loaded and self._ended.knows(fact.group, request.member_id, before.generation):
            return "forgotten"  # a rebalance, or conversion, that another coordinator had begun
        if told != SAME_SUBSCRIPTION or leads:
            if told == OTHER_SUBSCRIPTION:
                return "subscription"
            member = self._known.member(fact.group, who)
            if member.completed != before.generation:
                return "lost answer"
            if member.to_revoke == before.generation:
                return "revocation"  # it gave up what the assignment lacks: others may have it now
        if leads and any(topic in self._resized for topic in self._topics(fact)):
            return "partitions"
        if matches and any(topic in self._deleted for topic in self._topics(fact)):
            return "topics"  # it may be without one for a time
        if leads and self._racks_changed and self._known.member(fact.group, before.leader).rack:
            return "racks"  # replicas of a broker that is away have none (PartitionRackInfo)
        forgot = (leads or matches) and self._forgot_metadata(fact, who)
        return "metadata" if forgot else ""

    def _forgot_metadata(self, fact: facts.GroupState, member_id: str) -> bool:
        """Return whether a member's metadata was without its topics for a time.

        A leader then finds other partitions than it had assigned, and any member finds no topics
        that match its pattern (ConsumerCoordinator.rejoinNeededOrPending). It joins again, also if
        it knows better by then. Either its client has rebootstrapped, or it asked a ZooKeeper
        broker that has restarted: such a broker's metadata cache is empty until it hears
        UpdateMetadata of the controller, and it answers Metadata without any topic.
        """
        since = self._formed.get((fact.group, fact.generation), 0) - STALE_METADATA_US
        if self._blank.client(self._known.member(fact.group, member_id).host, since):
            return True
        return self.cluster.zookeeper and self._blank.broker(since)

    def _topics(self, fact: facts.GroupState) -> dict[str, None]:
        return {
            topic: None
            for member_id in fact.member_ids
            for topic in self._known.member(fact.group, member_id).topics
        }

    # Who serves.

    def _partition(self, group: str) -> int:
        return self.cluster.group_key(group)[1]

    def _check_coordinator(self, seq: int, t: int, node: str, fact: facts.MemberRequest) -> None:
        deposed = self._deposed.get((self._partition(fact.group), node))
        if deposed is not None and t > deposed + SLACK_US:
            self._violated(
                "stale-coordinator", seq, t, fact.group,
                f"{node} serves {fact.api} of group {fact.group}, {t - deposed} µs after it became"
                " a follower of the group's partition",
            )  # fmt: skip

    def _offsets_topic(self) -> str:
        topics = self.cluster.topics.items()
        return next((key for key, made in topics if made.topic == "__consumer_offsets"), "")

    def _on_follower(self, _s: int, t: int, node: str, fact: facts.BecameFollower) -> None:
        if fact.topic_id == self._offsets_topic():
            self._deposed.setdefault((fact.partition, node), t)

    def _on_leader(self, _s: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        if fact.topic_id == self._offsets_topic():
            self._deposed.pop((fact.partition, node), None)

    def _on_loaded(self, _s: int, _t: int, node: str, fact: facts.CoordinatorLoaded) -> None:
        self._resigned[(fact.partition, node)] = not fact.loaded
        if fact.loaded:
            # The lane of the coordinator may be ahead of the one that tells who leads.
            self._deposed.pop((fact.partition, node), None)
            known = self._coordinator.get(fact.partition, (-1, ""))
            self._coordinator[fact.partition] = max(known, (fact.leader_epoch, node))
        else:
            for tenures in (self._tenures, self._upgraded):
                for key in [key for key in tenures if key[0] == node]:
                    if self._partition(key[1]) == fact.partition:
                        del tenures[key]

    # What the hosts do.

    def _on_standstill(self, node: str, begin: int, end: int) -> None:
        for (where, _), tenure in self._tenures.items():
            if where == node:
                tenure.paused_us += end - max(begin, tenure.since_us)
        for key, at in self._deposed.items():
            if key[1] == node:
                self._deposed[key] = at + end - max(begin, at)

    def _on_started(self, _s: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        for key in [key for key in self._deposed if key[1] == node]:
            del self._deposed[key]

    def _on_stopped(self, _s: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        for tenures in (self._tenures, self._upgraded):
            for key in [key for key in tenures if key[0] == node]:
                del tenures[key]
        for place, (_, where) in list(self._coordinator.items()):
            if where == node:
                del self._coordinator[place]

    def _on_registration(self, _s: int, _t: int, _n: str, _fact: facts.BrokerRegistration) -> None:
        self._racks_changed = True

    def _on_fault(self, _s: int, _t: int, _n: str, fact: facts.FaultStarted) -> None:
        """Judge no more times on a host whose clock runs faster or slower than others."""
        if fact.fault == "clock-drift":
            self._drifting[fact.target] = None

    # Topics.

    def _on_topic_created(self, _s: int, t: int, _n: str, fact: facts.TopicCreated) -> None:
        if self._sizes.setdefault(fact.topic_id, fact.partitions) == fact.partitions:
            if fact.topic in self._deleted:
                self._resized[fact.topic] = t

    def _on_topic_deleted(self, _s: int, t: int, _n: str, fact: facts.TopicDeleted) -> None:
        self._resized[fact.topic] = t
        self._deleted[fact.topic] = None

    def _on_partition(self, _s: int, t: int, _n: str, fact: facts.PartitionChanged) -> None:
        place = (fact.topic_id, fact.partition)
        if self._replicas.setdefault(place, fact.replicas) != fact.replicas:
            self._replicas[place] = fact.replicas
            self._racks_changed = True
        if fact.partition >= self._sizes.get(fact.topic_id, 1 << 30):
            self._sizes[fact.topic_id] = fact.partition + 1
            created = self.cluster.topics.get(fact.topic_id)
            if created is not None:
                self._resized[created.topic] = t

    # Offsets.

    def _on_committed(self, seq: int, t: int, _n: str, fact: facts.OffsetCommitted) -> None:
        if fact.coordinator_epoch >= 0:  # else ZooKeeper has it
            self._committed[(fact.group, fact.topic, fact.partition)] = (seq, t, fact)

    def _on_final_offset(self, _s: int, _t: int, node: str, fact: facts.FinalOffset) -> None:
        if self._coordinator.get(self._partition(fact.group), (-1, ""))[1] == node:
            self._final[(fact.group, fact.topic, fact.partition)] = None

    def _on_phase(self, seq: int, t: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "ready":
            self._racks_changed = False
        elif fact.phase == "end":
            for (node, group), tenure in self._tenures.items():
                self._check_phase(seq, t, node, group, tenure)
            self._end = (seq, t)

    def finish(self) -> None:
        """Judge what the coordinators hold at the end; one that has resigned holds nothing."""
        seq, t = self._end
        for (group, topic, partition), (since, at, commit) in self._committed.items():
            name = f"{topic}-{partition}"
            key = self.cluster.group_key(group)
            place = self._coordinator.get(key[1])
            if (
                seq < 0
                or (group, topic, partition) in self._final
                or topic in self._deleted
                or self._deletions.cover(since, commit)
                or place is None
                or self._resigned[key[1], place[1]]
                or t - at >= self._limits.retention_us
            ):
                continue
            self._violated(
                "vanished-offset", seq, t, group,
                f"{place[1]}, the coordinator of group {group}, has no offset of {name}, which was"
                " committed and neither expired nor deleted", promise=since,
            )  # fmt: skip

    def _violated(
        self, name: str, seq: int, t: int, group: str, message: str, promise: int = -1
    ) -> None:
        key = self.cluster.group_key(group)
        self.cluster.violated(
            name, seq, t, key, message, self.cluster.lost_between(key, promise, seq)
        )
