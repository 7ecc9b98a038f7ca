"""Whether each committed input of a processor has exactly one committed output.

An output has the value of its input (``running/transactional/processing.py``). Inputs that count
are the readable records of the topics that the processor reads, from where its group began up to
what the group has committed.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, PartitionKey

Finding = tuple[str, PartitionKey, str, int, int, str]
"""(anomaly, partition, detail, offset, record id, group)"""


class Outputs:
    """The processors of a run, and how far their groups are."""

    def __init__(self, trace: FactSource) -> None:
        self.processors: dict[tuple[str, tuple[str, ...], str], None] = {}  # (group, topics, topic)
        self._names: dict[str, str] = {}  # topic id -> name, of topics that exist
        self._first: dict[tuple[str, PartitionKey], int] = {}  # where a group began
        self._committed: dict[tuple[str, str, int], int] = {}  # the last committed offset
        trace.subscribe(facts.ProcessorStarted, self._on_processor)
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TopicDeleted, self._on_deleted)
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)

    def judge(self, visible: dict[PartitionKey, dict[int, int]]) -> Iterator[Finding]:
        """Yield lost and duplicate outputs; ``visible`` are the readable records by offset."""
        for group, topics, output in self.processors:
            written: dict[int, list[tuple[PartitionKey, int]]] = {}
            for key, records in visible.items():
                if self._names.get(key[0]) == output:
                    for offset, record_id in records.items():
                        written.setdefault(record_id, []).append((key, offset))
            yield from self._lost(group, topics, visible, written)
            for record_id, places in written.items():
                if len(places) > 1:
                    key, offset = places[-1]
                    detail = f"record {record_id} was written {len(places)} times by {group}"
                    yield "duplicate-output", key, detail, offset, record_id, group

    def _lost(
        self,
        group: str,
        topics: tuple[str, ...],
        visible: dict[PartitionKey, dict[int, int]],
        written: dict[int, list[tuple[PartitionKey, int]]],
    ) -> Iterator[Finding]:
        for key, records in visible.items():
            name = self._names.get(key[0], "")
            if name not in topics:
                continue
            first = self._first.get((group, key), 1 << 62)
            end = self._committed.get((group, name, key[1]), -1)
            for offset, record_id in records.items():
                if first <= offset < end and record_id not in written:
                    detail = f"{group} committed past record {record_id} at offset {offset}"
                    detail += " without an output"
                    yield "lost-output", key, detail, offset, record_id, group

    def _on_processor(self, _seq: int, _t: int, _node: str, fact: facts.ProcessorStarted) -> None:
        self.processors[(fact.group, fact.topics, fact.topic)] = None

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._names.setdefault(fact.topic_id, fact.topic)

    def _on_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._names.pop(fact.topic_id, None)

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason != "none":
            place = (fact.group, (fact.topic_id, fact.partition))
            self._first[place] = min(fact.offset, self._first.get(place, fact.offset))

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        self._committed[(fact.group, fact.topic, fact.partition)] = fact.offset
