"""The partitions whose leaders coordinate a share partition (KIP-932)."""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.analysis.judging.invariants.traced import coordinator_partition, offsets_partition
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


def share_homes(
    group: str, topic: str, partition: int, topics: Mapping[str, facts.TopicCreated]
) -> tuple[PartitionKey, PartitionKey]:
    """Return the partitions with the state of a share partition, and with its group.

    Of two topics of one name in ``topics``, by topic id, the later one is meant: the other was
    deleted.
    """
    ids = [topic_id for topic_id, fact in topics.items() if fact.topic == topic]
    name = f"{group}:{ids[-1] if ids else ''}:{partition}"  # SharePartitionKey.asCoordinatorKey
    state = coordinator_partition("__share_group_state", name, topics)
    return state, offsets_partition(group, topics)
