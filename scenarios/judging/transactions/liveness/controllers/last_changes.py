"""The topics of a cluster, and the last change of each of their partitions."""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, PartitionKey


class LastChanges:
    """Follows topics and partitions. ``topics`` are all that ever were, by topic id."""

    def __init__(self, trace: FactSource) -> None:
        self.topics: dict[str, facts.TopicCreated] = {}
        self._changes: dict[PartitionKey, facts.PartitionChanged] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)

    def of(self, key: PartitionKey) -> facts.PartitionChanged | None:
        """Return a partition's last change, None if it has had none."""
        return self._changes.get(key)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.topics.setdefault(fact.topic_id, fact)

    def _on_partition(self, _seq: int, _t: int, _n: str, fact: facts.PartitionChanged) -> None:
        """Note a change; one that a new controller tells again is an old one."""
        key = (fact.topic_id, fact.partition)
        known = self._changes.get(key)
        if known is None or fact.partition_epoch > known.partition_epoch:
            self._changes[key] = fact
