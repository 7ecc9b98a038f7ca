"""When topics last changed: what the subscribers of a group must notice.

A topic is created, grown or deleted, or the racks of its replicas change. The racks count since 4.1
(Utils.computeTopicHash), but this does not ask for the release.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.model import facts


class TopicChanges:
    """Follows the topics of a cluster."""

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        self._changed: dict[str, int] = {}  # topic -> when it last was
        self._sizes: dict[str, int] = {}  # topic id -> partitions
        self._racks: dict[int, str] = {}  # broker -> its rack, while it is registered
        self._replicas: dict[tuple[str, int], tuple[int, ...]] = {}  # by topic id and partition
        cluster.trace.subscribe(facts.TopicCreated, self._on_created)
        cluster.trace.subscribe(facts.TopicDeleted, self._on_deleted)
        cluster.trace.subscribe(facts.PartitionChanged, self._on_partition)
        cluster.trace.subscribe(facts.BrokerRegistration, self._on_registration)

    def any_since(self, since_us: int, subscriptions: Iterable[str]) -> bool:
        """Return whether a topic has changed since then, of these names and ``/expressions/``."""
        names = dict.fromkeys(subscriptions)
        expressions = [name[1:-1] for name in names if name.startswith("/")]
        return any(
            at >= since_us
            and (topic in names or any(re.fullmatch(each, topic) for each in expressions))
            for topic, at in self._changed.items()
        )

    def _on_created(self, _s: int, t: int, _n: str, fact: facts.TopicCreated) -> None:
        self._sizes.setdefault(fact.topic_id, fact.partitions)
        self._changed[fact.topic] = t

    def _on_deleted(self, _s: int, t: int, _n: str, fact: facts.TopicDeleted) -> None:
        self._changed[fact.topic] = t

    def _on_partition(self, _s: int, t: int, _n: str, fact: facts.PartitionChanged) -> None:
        if fact.partition >= self._sizes.get(fact.topic_id, 1 << 30):
            self._sizes[fact.topic_id] = fact.partition + 1
            self._change(fact.topic_id, t)
        key = (fact.topic_id, fact.partition)
        before = self._replicas.get(key, fact.replicas)
        self._replicas[key] = fact.replicas
        if self._racks_of(before) != self._racks_of(fact.replicas):
            self._change(fact.topic_id, t)

    def _on_registration(self, _s: int, t: int, _n: str, fact: facts.BrokerRegistration) -> None:
        rack = None if fact.change == "unregistered" else fact.rack
        if rack == self._racks.get(fact.broker):
            return
        if rack is None:
            del self._racks[fact.broker]
        else:
            self._racks[fact.broker] = rack
        for (topic_id, _), replicas in self._replicas.items():
            if fact.broker in replicas:
                self._change(topic_id, t)

    def _racks_of(self, replicas: tuple[int, ...]) -> list[str]:
        return sorted([self._racks[each] for each in replicas if each in self._racks])

    def _change(self, topic_id: str, t: int) -> None:
        created = self._cluster.topics.get(topic_id)
        if created is not None:
            self._changed[created.topic] = t
