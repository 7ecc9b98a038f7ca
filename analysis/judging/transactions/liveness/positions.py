"""Where groups are in partitions: the position of the consumer that holds a partition.

Two consumers may hold one partition for a time. A consumer that slept through the end of its
session still returns what it had fetched, before it hears that it lost the partition
(ConsumerCoordinator.onJoinPrepare, onPartitionsLost). Then the group is where the new owner is. The
new owner may be at the end already: it polls nothing more that would tell its position again.

A member may even take a partition up when it is another's. It slept before it heard of its
assignment, and asks for the committed offset before it hears that the group has gone on without it
(ConsumerCoordinator.initWithCommittedOffsetsIfNeeded). So while the member that the coordinator
last gave a partition to is at it, the group is where that one is. Numbers of generations do not
tell: those of a group that was deleted, or whose coordinator lost its last records, begin lower
again.

ListOffsets names a topic by its name. If a topic was created again, a consumer whose metadata is
older looks up its offset in the new one, and tells the id of the old one.

An old consumer goes on at the offset of a reset, and is given what it had fetched before all the
same (ConsumerFetcherThread.handleOffsetOutOfRange leaves the queue as it is,
``readers/legacy/fetched_before.py``). So the records from its queue take it back nowhere.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.legacy.fetched_before import RESETS
from kafkasim.analysis.judging.readers.recreated.names import TopicNames
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


class Positions:
    """Follows the position of each group in each partition."""

    def __init__(self, trace: FactSource) -> None:
        self.last: dict[tuple[str, PartitionKey], tuple[int, str]] = {}
        """(group, partition) -> (position, node that told it). Where nobody holds the partition it
        is that of the last consumer that did."""
        self._holders: dict[tuple[str, PartitionKey], dict[str, int]] = {}
        """Node -> position of each consumer that has not given the partition up, in the order in
        which they last told it"""
        self._topics = TopicNames(trace)
        self._owners: dict[str, dict[str, str]] = {}
        """Group -> ``topic-partition`` -> the member id that the coordinator last gave it to"""
        self._members: dict[tuple[str, PartitionKey, str], str] = {}
        """(group, partition, node) -> the member id with which the node told its position"""
        self._old: dict[tuple[str, str], None] = {}  # (group, member id) of old consumers
        self._resets: dict[tuple[str, PartitionKey, str], int] = {}
        """(group, partition, node) -> the offset that the old consumer's last reset led to"""
        trace.subscribe(facts.GroupAssigned, self._on_assigned)
        trace.subscribe(facts.PartitionOwner, self._on_owner)
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.Polled, self._on_polled)
        trace.subscribe(facts.HostStopped, self._on_stopped)

    def is_assigned(self, group: str, name: str) -> bool:
        """Return whether a coordinator has given a partition, by its name, to a group's member."""
        return name in self._owners.get(group, {})

    def held(self, group: str, key: PartitionKey) -> Mapping[str, int]:
        """Return the position of each running consumer that holds a partition, by host."""
        return self._holders.get((group, key), {})

    def _on_assigned(self, _seq: int, _t: int, _node: str, fact: facts.GroupAssigned) -> None:
        owners = self._owners.setdefault(fact.group, {})
        for name in [name for name, owner in owners.items() if owner == fact.member_id]:
            del owners[name]
        owners.update(dict.fromkeys(fact.assignment, fact.member_id))

    def _on_owner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        self._old[fact.group, fact.member_id] = None

    def _on_positioned(self, _seq: int, _t: int, node: str, fact: facts.Positioned) -> None:
        topic_id = fact.topic_id
        if fact.reason in RESETS and topic_id in self._topics.name:
            topic_id = self._topics.ids[self._topics.name[topic_id]][-1]
        key = (fact.group, (topic_id, fact.partition))
        self._resets.pop((*key, node), None)
        if fact.reason in RESETS and (fact.group, fact.member_id) in self._old:
            self._resets[(*key, node)] = fact.offset
        if fact.reason != "none":
            self._place(key, fact.offset, node, fact.member_id)
            return
        holders = self._holders.get(key, {})
        holders.pop(node, None)
        if holders and self.last[key][1] == node:
            other, position = list(holders.items())[-1]
            self.last[key] = (position, other)

    def _on_polled(self, _seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        key = (fact.group, (fact.topic_id, fact.partition))
        last, position = self.last.get(key), fact.position
        if self._resets:
            position = max(position, self._resets.get((*key, node), -1))
        if last is not None and last[1] == node:  # no other is behind it in the order
            self._holders[key][node] = position
            self.last[key] = (position, node)
        else:
            self._place(key, position, node, fact.member_id)

    def _place(
        self, key: tuple[str, PartitionKey], position: int, node: str, member_id: str
    ) -> None:
        holders = self._holders.setdefault(key, {})
        holders.pop(node, None)
        holders[node] = position
        self._members[(*key, node)] = member_id
        owner = self._other_owner(key, node, member_id)
        if owner:
            holders[owner] = holders.pop(owner)  # the last in the order
        else:
            self.last[key] = (position, node)

    def _other_owner(self, key: tuple[str, PartitionKey], node: str, member_id: str) -> str:
        """Return the host of the owner of a partition if it told the last position, or ""."""
        group, (topic_id, partition) = key
        name = f"{self._topics.name.get(topic_id)}-{partition}"
        owner = self._owners.get(group, {}).get(name, member_id)
        last = self.last[key][1] if key in self.last else node
        held = last != node and last in self._holders[key]
        return last if held and self._members[(*key, last)] == owner != member_id else ""

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        """A process that ended holds nothing; its last position stands until another tells one."""
        for holders in self._holders.values():
            holders.pop(node, None)
