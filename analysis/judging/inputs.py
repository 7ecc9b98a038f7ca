"""What groups that write outputs have read: from where they began up to what they have committed.

Positions and commits belong to a topic's name: where several topics have had one name, no input of
it is asked for an output.
"""

from __future__ import annotations

from kafkasim.analysis.judging.history.contents import COMMITTED, Contents
from kafkasim.analysis.judging.history.footing import END, Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import DELETING, RESETS, PartitionKey
from kafkasim.model import facts

Visible = dict[PartitionKey, dict[int, int]]
"""Readable records: ids by partition and offset"""


def readable(contents: Contents) -> Visible:
    """Return the records that a reader of committed records finds when the run ends."""
    return {
        key: {
            offset: record_id
            for offset, record_id, state in contents.states(key)
            if state == COMMITTED and offset >= leader.log_start_offset
        }
        for key, leader in sorted(contents.leaders.items(), key=lambda each: each[0])
    }


class Inputs:
    """Follows the positions and commits of all groups."""

    def __init__(self, trace: FactSource, history: History) -> None:
        self._footing = history.footing
        self.names: dict[str, str] = {}  # topic id -> name
        self._again: dict[str, None] = {}  # names that several topics have had
        self._first: dict[tuple[str, PartitionKey], int] = {}  # where a group began
        self._committed: dict[tuple[str, str, int], tuple[int, int]] = {}
        """Of each group and partition: the epoch of the coordinator, and the last offset"""
        self._reset: dict[tuple[str, PartitionKey], int] = {}  # the row of a group's last reset
        self._deleted: dict[PartitionKey, int] = {}  # below it the records were deleted
        follow(trace, self)

    def committed(self, group: str, key: PartitionKey) -> int:
        """Return the offset that a group committed last in a partition, −1 for none."""
        return self._committed.get((group, self.names.get(key[0], ""), key[1]), (-1, -1))[1]

    def asked(self, group: str, key: PartitionKey) -> range:
        """Return the offsets of the inputs whose outputs are asked for."""
        if self.names.get(key[0], "") in self._again:
            return range(0)
        first = max(self._first.get((group, key), END), self._deleted.get(key, 0))
        return range(first, max(first, self.committed(group, key)))

    def of_resets(self, group: str, topics: tuple[str, ...] | None = None) -> list[Spot]:
        """Return what a group's resets explain: its positions, or its commits, were lost.

        ``topics`` names the topics that it reads; None: any.
        """
        spots = []
        for (of, key), row in self._reset.items():
            if of == group and (topics is None or self.names.get(key[0]) in topics):
                spots += self._footing.of_reset(group, key, row)
        return spots

    def on_TopicCreated(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Take a topic."""
        if fact.topic_id not in self.names and fact.topic in self.names.values():
            self._again[fact.topic] = None
        self.names.setdefault(fact.topic_id, fact.topic)

    def on_LogStart(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        """Take inputs that were deleted."""
        if fact.reason in DELETING:
            key = (fact.topic_id, fact.partition)
            self._deleted[key] = max(fact.offset, self._deleted.get(key, 0))

    def on_Positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take where a group begins."""
        if fact.reason == "none":
            return
        place = (fact.group, (fact.topic_id, fact.partition))
        self._first[place] = min(fact.offset, self._first.get(place, fact.offset))
        if fact.reason in RESETS:
            self._reset[place] = seq

    def on_OffsetCommitted(
        self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted
    ) -> None:
        """Take a commit."""
        place = (fact.group, fact.topic, fact.partition)
        if fact.coordinator_epoch >= self._committed.get(place, (-1, -1))[0]:
            self._committed[place] = (fact.coordinator_epoch, fact.offset)
