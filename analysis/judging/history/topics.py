"""Topics by id, and which partition of a coordinators' topic holds a group or a transaction."""

from __future__ import annotations

from collections.abc import Container, Mapping

from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.coordinator.hashing import partition_for


class Topics:
    """All topics that a controller has created, with those that were deleted since."""

    def __init__(self) -> None:
        self.created: dict[str, facts.TopicCreated] = {}  # by topic id; the first row counts
        self.deleted: dict[str, None] = {}  # topic ids; brokers drop their logs one by one

    def on_TopicCreated(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Note a topic."""
        self.created.setdefault(fact.topic_id, fact)

    def on_TopicDeleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        """Note that a controller has deleted a topic."""
        self.deleted[fact.topic_id] = None

    def id_of(self, topic: str) -> str:
        """Return the id of a topic, of the first one if it was created anew, "" if unknown."""
        return next((key for key, made in self.created.items() if made.topic == topic), "")


def offsets_partition(
    group: str, topics: Mapping[str, facts.TopicCreated], elsewhere: Container[str] = ()
) -> PartitionKey:
    """Return the partition of __consumer_offsets that holds a group.

    Without an offsets topic it is ``("", -1)``, as for the groups that are ``elsewhere``.
    """
    if group in elsewhere:
        return "", -1
    return coordinator_partition("__consumer_offsets", group, topics)


def coordinator_partition(
    topic: str, name: str, topics: Mapping[str, facts.TopicCreated]
) -> PartitionKey:
    """Return the partition of a coordinators' topic that holds a group or a transactional id.

    Without the topic it is ``("", -1)``.
    """
    for topic_id, created in topics.items():
        if created.topic == topic:
            return topic_id, partition_for(name, created.partitions)
    return "", -1
