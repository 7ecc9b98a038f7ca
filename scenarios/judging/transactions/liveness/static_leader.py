"""Stalls of a group whose static leader came back after its topics had changed.

A static member that leads its group and starts again gets the assignment that the group has
(KIP-345). Its new process takes the metadata of that moment for what it had assigned
(ConsumerCoordinator.onLeaderElected with skipAssignment, KIP-814). Partitions that were created
before, and that its former process had not found yet, are assigned in the next rebalance: nobody
asks for one until a member comes or goes, or the topics change again.
"""

from __future__ import annotations

import re

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource

RETURNED = "static-leader-returned"

_READS = re.compile(r"group (\S+) is at \d+ of \d+ in (\S+) ")


class StaticLeaders:
    """Follows who leads groups, and which partitions a generation has assigned."""

    def __init__(self, trace: FactSource) -> None:
        self._topics: dict[str, str] = {}  # topic id -> name
        self._created: dict[str, int] = {}  # topic-partition -> the row of its creation
        self._states: dict[str, facts.GroupState] = {}  # the last one of each group
        self._returned: dict[str, int] = {}  # group -> when its leader came back, in a stable phase
        self._assigned: dict[str, dict[str, tuple[str, ...]]] = {}  # group -> member id -> what
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.GroupAssigned, self._on_assigned)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = _READS.match(line)
        if found is None or found[1] not in self._returned:
            return ""
        group, partition = found[1], found[2]
        assigned = self._assigned.get(group, {}).values()
        if any(partition in each for each in assigned):
            return ""
        created = self._created.get(partition, -1)
        return RETURNED if 0 <= created < self._returned[group] else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_partition(self, seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        name = f"{self._topics.get(fact.topic_id, '')}-{fact.partition}"
        self._created.setdefault(name, seq)

    def _on_state(self, seq: int, _t: int, _node: str, fact: facts.GroupState) -> None:
        """Note that another member id leads the same generation: a static member took it over."""
        before = self._states.get(fact.group)
        self._states[fact.group] = fact
        if before is None or fact.generation != before.generation or fact.state != "Stable":
            self._returned.pop(fact.group, None)
            self._assigned.pop(fact.group, None)
        elif before.state == "Stable" and before.group_leader not in ("", fact.group_leader):
            self._returned[fact.group] = seq

    def _on_assigned(self, _seq: int, _t: int, _node: str, fact: facts.GroupAssigned) -> None:
        self._assigned.setdefault(fact.group, {})[fact.member_id] = fact.assignment
