"""Which groups may have an assignor that fails because a topic's size has changed.

An assignor fails where members have partitions that the metadata it is given lack. Metadata only
move on, so whoever gave out the partitions is not the one that lacks them:

- The leader of a classic group, with metadata of its own, meets what another member owns: a
  partition that the topic did not always have.
- The coordinator of a consumer group (KIP-848) meets a target assignment that another one has
  computed, so it has loaded the group since the topic's size changed
  (UniformHeterogeneousAssignmentBuilder.maybeRevokePartitions). Members need not have heard of that
  target yet, so what counts is that the group reads the topic. A classic group that it converts has
  the assignment of its leader, which may know more than the coordinator.

The assignor of a share group knows what the group has initialized. It fails once that has grown
beyond what members shared, at whichever coordinator
(SimpleHomogeneousAssignmentBuilder.roundRobinAssignmentWithCount).
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafkasim.analysis.judging.invariants.traced import coordinator_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

AT_END = 1 << 62
"""A row after all others."""


class ResizedTopics:
    """Follows the sizes of topics, and what groups read of them."""

    def __init__(self, trace: FactSource) -> None:
        self._topics: dict[str, facts.TopicCreated] = {}  # by id
        self._fewest: dict[str, int] = {}  # topic -> the fewest partitions that it has had
        self._latest: dict[str, int] = {}  # topic -> how many it was created with last
        self._resized: dict[str, int] = {}  # topic -> the row in which its size changed first
        self._classic: dict[str, int] = {}  # group -> the row of its last classic rebalance
        self._loads: dict[int, int] = {}  # partition of __consumer_offsets -> row of the last load
        self._reads: dict[str, dict[str, None]] = {}  # group -> what its members subscribe to
        self._given: dict[str, dict[str, None]] = {}  # group -> topic-partition of its members
        self._shared: dict[str, dict[str, None]] = {}  # the same of a share group
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)
        trace.subscribe(facts.GroupState, self._on_state)
        trace.subscribe(facts.MemberRequest, self._on_request)
        trace.subscribe(facts.ConsumerAssigned, self._on_given)
        trace.subscribe(facts.GroupAssigned, self._on_given)
        trace.subscribe(facts.ShareGroupAssigned, self._on_shared)

    def fails_leader(self, groups: Sequence[str]) -> bool:
        """Return whether the assignor of a classic group's leader may lack what members own.

        ``groups`` are those of the leader's host; none: it has not been told which, so any may be.
        """
        return any(self._was_given(group, AT_END) for group in groups or self._given)

    def _was_given(self, group: str, before: int) -> bool:
        """Return whether a group had partitions that a topic got by a change before a row."""
        return any(
            self._resized.get(topic, before) < before and int(number) >= self._fewest[topic]
            for topic, _, number in map(_split, self._given.get(group, ()))
        )

    def fails_coordinator(self, group: str) -> bool:
        """Return whether the assignor of a group's coordinator may fail."""
        if any(_split(each)[0] in self._resized for each in self._shared.get(group, ())):
            return True
        if self._was_given(group, self._classic.get(group, 0)):
            return True
        home = coordinator_partition("__consumer_offsets", group, self._topics)[1]
        loaded = self._loads.get(home, -1)
        return any(
            since < loaded and self._has(group, topic) for topic, since in self._resized.items()
        )

    def _has(self, group: str, topic: str) -> bool:
        """Return whether a group subscribes to a topic, or has had partitions of it."""
        if any(_split(each)[0] == topic for each in self._given.get(group, ())):
            return True
        return any(
            each == topic or (each[:1] == "/" and re.fullmatch(each[1:-1], topic) is not None)
            for each in self._reads.get(group, ())
        )

    def _on_topic(self, seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic_id not in self._topics:
            self._topics[fact.topic_id] = fact
            self._resize(seq, fact.topic, fact.partitions)

    def _on_partition(self, seq: int, _t: int, _n: str, fact: facts.PartitionChanged) -> None:
        created = self._topics.get(fact.topic_id)
        if created is not None and fact.partition >= self._latest[created.topic]:
            self._resize(seq, created.topic, fact.partition + 1)

    def _resize(self, seq: int, topic: str, partitions: int) -> None:
        if self._latest.get(topic, partitions) != partitions:
            self._resized.setdefault(topic, seq)
        self._latest[topic] = partitions
        self._fewest[topic] = min(partitions, self._fewest.get(topic, partitions))

    def _on_loaded(self, seq: int, _t: int, _node: str, fact: facts.CoordinatorLoaded) -> None:
        if fact.loaded:
            self._loads[fact.partition] = seq

    def _on_state(self, seq: int, _t: int, _node: str, fact: facts.GroupState) -> None:
        if fact.state == "CompletingRebalance":
            self._classic[fact.group] = seq

    def _on_request(self, _s: int, _t: int, _node: str, fact: facts.MemberRequest) -> None:
        self._reads.setdefault(fact.group, {}).update(dict.fromkeys(fact.topics))

    def _on_given(
        self, _s: int, _t: int, _n: str, fact: facts.ConsumerAssigned | facts.GroupAssigned
    ) -> None:
        self._given.setdefault(fact.group, {}).update(dict.fromkeys(fact.assignment))

    def _on_shared(self, _s: int, _t: int, _n: str, fact: facts.ShareGroupAssigned) -> None:
        self._shared.setdefault(fact.group, {}).update(dict.fromkeys(fact.assignment))


def _split(partition: str) -> tuple[str, str, str]:
    """Return the topic, a dash, and the number of ``topic-partition``."""
    return partition.rpartition("-")
