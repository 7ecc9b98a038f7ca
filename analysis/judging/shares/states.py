"""Which records of ``__share_group_state`` the state of a share partition rests on.

A leader writes a move of records after it was made, and a member hears of it only after the write.
So what one of the two promises rests on was appended between these rows: the records that any share
coordinator of the partition appended meanwhile. Records of other share partitions in between widen
the range; no fact tells them apart. A snapshot repeats what came before it, and a share coordinator
then deletes that (ShareCoordinatorService.performRecordPruning): if the log starts behind the
range, all that came later stands for it.
"""

from __future__ import annotations

from dataclasses import replace

from kafkasim.analysis.judging.history.footing import END, Spot
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC


class StateLogs:
    """Follows the partitions of ``__share_group_state``."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._topic_id = ""
        # By partition: row, base offset, next offset, and who appended.
        self._appended: dict[PartitionKey, list[tuple[int, int, int, str]]] = {}
        self._starts: dict[PartitionKey, int] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic == SHARE_GROUP_STATE_TOPIC and not self._topic_id:
            self._topic_id = fact.topic_id
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.LogStart, self._on_start)

    def _on_appended(self, seq: int, _t: int, node: str, fact: facts.Appended) -> None:
        if fact.topic_id == self._topic_id:
            appended = self._appended.setdefault((fact.topic_id, fact.partition), [])
            appended.append((seq, fact.base_offset, fact.next_offset, node))

    def _on_start(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        if fact.topic_id == self._topic_id:
            key = (fact.topic_id, fact.partition)
            self._starts[key] = max(fact.offset, self._starts.get(key, 0))

    def within(self, of: Spot, after: int, before: int) -> list[Spot]:
        """Return the records of a state partition that were appended between two rows."""
        found = [each for each in self._appended.get(of.key, ()) if after < each[0] < before]
        if not found:
            return []
        end = max(each[2] for each in found)
        if self._starts.get(of.key, 0) >= end:
            end = END
        return [replace(of, first=min(each[1] for each in found), end=end, after=found[0][0])]

    def stands(self, key: PartitionKey, offset: int, node: str, between: tuple[int, int]) -> bool:
        """Return whether no other broker has appended at an offset or below between two rows."""
        after, before = between
        return not any(
            after < row < before and base <= offset and by != node
            for row, base, _, by in self._appended.get(key, ())
        )
