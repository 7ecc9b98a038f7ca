"""When topics were last created, grown or deleted: what the subscribers of a group must notice."""

from __future__ import annotations

import re
from collections.abc import Iterable

from kafkasim.model import facts
from kafkasim.scenarios.judging.invariants.traced import TracedCluster


class TopicChanges:
    """Follows the topics of a cluster."""

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        self._changed: dict[str, int] = {}  # topic -> when it last was
        self._sizes: dict[str, int] = {}  # topic id -> partitions
        cluster.trace.subscribe(facts.TopicCreated, self._on_created)
        cluster.trace.subscribe(facts.TopicDeleted, self._on_deleted)
        cluster.trace.subscribe(facts.PartitionChanged, self._on_partition)

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
            created = self._cluster.topics.get(fact.topic_id)
            if created is not None:
                self._changed[created.topic] = t
