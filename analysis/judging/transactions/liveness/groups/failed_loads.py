"""Stalls of groups whose coordinator cannot load its partition, because a deletion passed it by.

A follower that is away for longer than delete.retention.ms misses tombstones that cleaners have
removed at the others meanwhile. It keeps the values that they deleted (LogCleaner, shouldRetain
decides replica by replica). If the record of a classic group is such a value, and the group is of
KIP-848 since, the log of this replica tells of two groups of one name. It is elected, and cannot
load: GroupMetadataManager.getOrMaybeCreatePersistedConsumerGroup throws IllegalStateException, the
partition's coordinator is FAILED (CoordinatorRuntime, CoordinatorState), and the broker answers
NOT_COORDINATOR until another one is elected. Nobody elects another one: the replica is in the ISR.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kafkasim.analysis.judging.copies.uncopied import Uncopied
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.coordinator.loader import CORRUPT

MISSED_DELETION = "missed-deletion"

_GROUP = re.compile(r"(?:share )?group (\S+) (?:is at|was given records below) ")
_CLIENT = re.compile(r"(\S+) handles what it was given")


class FailedLoads:
    """Follows what replicas of ``__consumer_offsets`` have missed, and loads that fail.

    ``group_key(group)`` is the group's partition of it; ``members`` are the hosts of each group.
    """

    def __init__(
        self,
        trace: FactSource,
        group_key: Callable[[str], PartitionKey],
        members: Mapping[str, Sequence[str]],
    ) -> None:
        self._group_key = group_key
        self._members = members
        self._ids: list[str] = []  # of __consumer_offsets, the last one counts
        self._failed: dict[int, None] = {}  # partitions whose last load failed for that reason
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.CoordinatorLoadFailed, self._on_failed),
            (facts.CoordinatorLoaded, self._on_loaded),
        ):
            trace.subscribe(kind, handler)
        self._uncopied = Uncopied(trace, lambda topic_id: topic_id in self._ids)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        group, client = _GROUP.match(line), _CLIENT.match(line)
        groups = [group[1]] if group is not None else []
        if client is not None:
            groups = [each for each, nodes in self._members.items() if client[1] in nodes]
        homes = [self._group_key(each)[1] for each in groups]
        return MISSED_DELETION if homes and all(each in self._failed for each in homes) else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic == "__consumer_offsets" and fact.topic_id not in self._ids:
            self._ids.append(fact.topic_id)

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.CoordinatorLoadFailed) -> None:
        if fact.topic != "__consumer_offsets" or not self._ids:
            return
        self._failed.pop(fact.partition, None)
        key = (self._ids[-1], fact.partition)
        if fact.reason != CORRUPT and self._uncopied.any_below(node, key, fact.offset):
            self._failed[fact.partition] = None

    def _on_loaded(self, _seq: int, _t: int, _node: str, fact: facts.CoordinatorLoaded) -> None:
        if fact.loaded:
            self._failed.pop(fact.partition, None)
