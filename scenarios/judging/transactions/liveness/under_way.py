"""What processors have been given and have not committed: a run does not end before they have.

A member's position says what poll() has returned, not what became of it: the outputs or the
transaction may be under way, and a process that has just crashed will be given the records again.
Processors commit, so their groups are judged by committed offsets. A coordinator that loads its log
may find a commit there that its predecessor never told of; what was given before is then not asked
for.
"""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.model import facts
from kafkasim.scenarios.judging.invariants.traced import offsets_partition
from kafkasim.scenarios.judging.source import FactSource, PartitionKey


class UnderWay:
    """Follows the groups of the processors of one run."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._topics: dict[str, facts.TopicCreated] = {}  # by id
        self._groups: dict[str, None] = {}  # of processors
        self._given: dict[tuple[str, PartitionKey], int] = {}  # the offset after the last record
        self._committed: dict[tuple[str, str, int], int] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.ProcessorStarted, self._on_processor)

    def uncommitted(self, group: str, topic_ids: Sequence[str]) -> list[str]:
        """Return the partitions of which a group was given records that it has not committed."""
        missing = []
        for (of, key), end in self._given.items():
            if of == group and key[0] in topic_ids:
                name = self._topics[key[0]].topic
                committed = self._committed.get((group, name, key[1]), -1)
                if committed < end:
                    missing.append(
                        f"group {group} was given records below {end} of {name}-{key[1]} and has"
                        f" committed {committed}"
                    )
        return missing

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics.setdefault(fact.topic_id, fact)

    def _on_processor(self, _seq: int, _t: int, _node: str, fact: facts.ProcessorStarted) -> None:
        """Follow groups from the first processor on: without one they cost nothing."""
        if not self._groups:
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._trace.subscribe(facts.Positioned, self._on_positioned)
            self._trace.subscribe(facts.OffsetCommitted, self._on_committed)
            self._trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)
        self._groups[fact.group] = None

    def _on_polled(self, _seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        if fact.offsets and fact.group in self._groups:
            self._given[fact.group, (fact.topic_id, fact.partition)] = fact.offsets[-1] + 1

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Forget what was given before: what lies behind the new position is given again."""
        if fact.reason != "none":
            self._given.pop((fact.group, (fact.topic_id, fact.partition)), None)

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        if fact.group in self._groups:
            self._committed[fact.group, fact.topic, fact.partition] = fact.offset

    def _on_loaded(self, _seq: int, _t: int, _node: str, fact: facts.CoordinatorLoaded) -> None:
        homes = {group: offsets_partition(group, self._topics)[1] for group in self._groups}
        for place in [each for each in self._given if homes[each[0]] == fact.partition]:
            del self._given[place]
