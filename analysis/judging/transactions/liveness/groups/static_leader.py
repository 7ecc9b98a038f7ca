"""Stalls of a group whose static leader came back after its topics had changed.

A static member that leads its group and starts again gets the assignment that the group has
(KIP-345). Its new process takes the metadata of that moment for what it had assigned
(ConsumerCoordinator.onLeaderElected with skipAssignment, KIP-814). Partitions that were created
before, and that its former process had not found yet, are assigned in the next rebalance: nobody
asks for one until a member comes or goes, or the topics change again.

Before 3.2 the coordinator answers with the member id that the leader had
(GroupCoordinator.updateStaticMemberAndRebalance), so its new process takes itself for a follower
and watches no topics (ConsumerCoordinator.onJoinComplete forgets the assignmentSnapshot). Until the
next rebalance nobody finds partitions of the members' topics, whenever they are created. A topic
that a pattern matches and that did not exist when the members joined is found by all of them: their
subscriptions change.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

RETURNED = "static-leader-returned"

READS = re.compile(r"group (\S+) is at \d+ of \d+ in (\S+) ")
"""A line of what is missing: (group, partition) of a reader that is not at the end"""


class StaticLeaders:
    """Follows who leads groups, and which partitions a generation has assigned.

    ``tells_leader(node)``: does the coordinator on a broker tell a leader that comes back that it
    leads (KIP-814)?
    """

    def __init__(self, trace: FactSource, tells_leader: Callable[[str], bool]) -> None:
        self._tells_leader = tells_leader
        self._topics: dict[str, str] = {}  # topic id -> name
        self._created: dict[str, int] = {}  # topic-partition -> the row of its creation
        self._states: dict[str, facts.GroupState] = {}  # the last one of each group
        # group -> when its leader came back in a stable phase, and whether it knows that it leads
        self._returned: dict[str, tuple[int, bool]] = {}
        self._named: dict[str, dict[str, tuple[str, ...]]] = {}  # group -> member -> its topics
        self._assigned: dict[str, dict[str, tuple[str, ...]]] = {}  # group -> member id -> what
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.GroupAssigned, self._on_assigned)
        trace.subscribe(facts.MemberRequest, self._on_request)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = READS.match(line)
        if found is None or found[1] not in self._returned:
            return ""
        group, partition = found[1], found[2]
        assigned = self._assigned.get(group, {}).values()
        if any(partition in each for each in assigned):
            return ""
        created, (returned, knows) = self._created.get(partition, -1), self._returned[group]
        if created < 0:
            return ""
        if created < returned:
            return RETURNED
        topic = partition.rpartition("-")[0]
        named = any(topic in topics for topics in self._named.get(group, {}).values())
        return RETURNED if named and not knows else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_partition(self, seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        name = f"{self._topics.get(fact.topic_id, '')}-{fact.partition}"
        self._created.setdefault(name, seq)

    def _on_request(self, _seq: int, _t: int, _node: str, fact: facts.MemberRequest) -> None:
        if fact.api == "JoinGroup":
            member = fact.instance_id or fact.member_id
            self._named.setdefault(fact.group, {})[member] = fact.topics

    def _on_state(self, seq: int, _t: int, node: str, fact: facts.GroupState) -> None:
        """Note that another member id leads the same generation: a static member took it over."""
        before = self._states.get(fact.group)
        self._states[fact.group] = fact
        if before is None or fact.generation != before.generation or fact.state != "Stable":
            self._returned.pop(fact.group, None)
            self._assigned.pop(fact.group, None)
        elif before.state == "Stable" and before.group_leader not in ("", fact.group_leader):
            self._returned[fact.group] = (seq, self._tells_leader(node))

    def _on_assigned(self, _seq: int, _t: int, _node: str, fact: facts.GroupAssigned) -> None:
        self._assigned.setdefault(fact.group, {})[fact.member_id] = fact.assignment
