"""What processors have been given and have not committed: a run does not end before they have.

A member's position says what poll() has returned, not what became of it: the outputs or the
transaction may be under way, and a process that has just crashed will be given the records again.
Processors commit, so their groups are judged by committed offsets. A coordinator that loads its log
may find a commit there that its predecessor never told of; what was given before is then not asked
for. A member that has only to read on is in the midst of a poll at any time: it handles it, and the
transaction of it is open.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kafkasim.analysis.judging.invariants.traced import offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

_OPEN = re.compile(r"\S+ has an open transaction of producer id (\d+) from offset ")
GIVEN = re.compile(r"group (\S+) was given records below (\d+) of \S+ and has committed (-?\d+)$")


class UnderWay:
    """Follows the groups of the processors of one run."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._topics: dict[str, facts.TopicCreated] = {}  # by id
        self._groups: dict[str, None] = {}  # of processors
        self._nodes: dict[str, None] = {}  # of processors
        self._producer_ids: dict[int, None] = {}  # of their transactions
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

    def in_a_poll(self, line: str) -> bool:
        """Return whether a line of what is missing says that a processor handles a poll."""
        found = _OPEN.match(line)
        if found is not None:
            return int(found[1]) in self._producer_ids
        node, _, rest = line.partition(" ")
        return node in self._nodes and rest == "handles what it was given"

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics.setdefault(fact.topic_id, fact)

    def _on_processor(self, _seq: int, _t: int, node: str, fact: facts.ProcessorStarted) -> None:
        """Follow groups from the first processor on: without one they cost nothing."""
        if not self._groups:
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._trace.subscribe(facts.Positioned, self._on_positioned)
            self._trace.subscribe(facts.OffsetCommitted, self._on_committed)
            self._trace.subscribe(facts.CoordinatorLoaded, self._on_loaded)
            self._trace.subscribe(facts.TransactionBegun, self._on_begun)
        self._groups[fact.group] = None
        self._nodes[node] = None

    def _on_begun(self, _seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        if node in self._nodes:
            self._producer_ids[fact.producer_id] = None

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
