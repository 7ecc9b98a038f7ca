"""Log starts that were forgotten: a processor begins again at inputs that it has handled.

DeleteRecords moves the log start past the position of a processor, whose next fetch gets
OFFSET_OUT_OF_RANGE. A log start is checkpointed once a minute
(log.flush.start.offset.checkpoint.interval.ms; LogManager.checkpointLogStartOffsets). A broker that
crashes before it does so loads the log with the start of before. If the reset to the earliest
offset is answered after that, it leads the processor back to records that were deleted and are
there again. What it writes again is committed, too.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.recreated.names import TopicNames
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

DELETED_INPUTS = "deleted-inputs"
"""Why a group was given committed inputs again: see :class:`DeletedInputs`."""

Place = tuple[str, PartitionKey]


class DeletedInputs:
    """Follows resets of groups whose position was deleted, behind a start that was forgotten.

    A reset counts if the group had a position below a log start that was told, a broker has loaded
    the log with a lower start since and still has it, and the reset led to that start or above it.
    A group that was told that it has no offset has no position. ``deleted`` has the highest log
    start that was told of each partition so far.
    """

    def __init__(self, trace: FactSource, deleted: Mapping[PartitionKey, int]) -> None:
        self._deleted = deleted
        self._topics = TopicNames(trace)
        self._positions: dict[Place, int] = {}
        self._forgotten: dict[PartitionKey, dict[str, tuple[int, int]]] = {}
        """By partition and broker: the start that its log has, and the one that was told before"""
        self._back: dict[Place, list[tuple[int, int, int]]] = {}
        """By group and partition: to which offset it was led back, the forgotten start, the row"""
        self._trace = trace
        trace.subscribe(facts.LogLoaded, self._on_loaded)
        trace.subscribe(facts.LogStart, self._on_start)

    def follow(self) -> None:
        """Follow the positions of groups, from the first processor on."""
        self._trace.subscribe(facts.Polled, self._on_polled)
        self._trace.subscribe(facts.Positioned, self._on_positioned)
        self._trace.subscribe(facts.OffsetFetched, self._on_fetched)

    def again(self, group: str, key: PartitionKey, offset: int, rows: list[int]) -> int:
        """Return how often between two of the rows a forgotten start led back to an input."""
        back = self._back.get((group, key), [])
        return sum(low <= offset < high and min(rows) < row < max(rows) for low, high, row in back)

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        key = (fact.topic_id, fact.partition)
        told = self._deleted.get(key, 0)
        if fact.log_start_offset < told:
            self._forgotten.setdefault(key, {})[node] = (fact.log_start_offset, told)
        else:
            self._forgotten.get(key, {}).pop(node, None)

    def _on_start(self, _seq: int, _t: int, node: str, fact: facts.LogStart) -> None:
        brokers = self._forgotten.get((fact.topic_id, fact.partition), {})
        if node in brokers:
            brokers[node] = (max(fact.offset, brokers[node][0]), brokers[node][1])

    def _on_polled(self, _seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        self._positions[fact.group, (fact.topic_id, fact.partition)] = fact.position

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason == "none":
            return
        key = (fact.topic_id, fact.partition)
        place = (fact.group, key)
        before = self._positions.get(place)
        self._positions[place] = fact.offset
        if fact.reason != "earliest" or before is None:
            return
        brokers = self._forgotten.get(key, {})
        starts = [told for start, told in brokers.values() if start <= fact.offset <= before]
        if max(starts, default=0) > before:
            self._back.setdefault(place, []).append((fact.offset, max(starts), seq))

    def _on_fetched(self, _seq: int, _t: int, _node: str, fact: facts.OffsetFetched) -> None:
        for topic_id in self._topics.ids.get(fact.topic, ()) if fact.offset < 0 else ():
            self._positions.pop((fact.group, (topic_id, fact.partition)), None)
