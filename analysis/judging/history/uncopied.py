"""Batches that a replica has not copied because another replica's cleaner had removed them before.

A follower that is away for longer than delete.retention.ms misses the tombstones and markers that
cleaners have removed at the others meanwhile: LogCleaner decides replica by replica.
"""

from __future__ import annotations

from collections.abc import Callable, Container

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Replica = tuple[str, PartitionKey]
"""Node, partition"""


class Uncopied:
    """Follows the replicas of the topics that are ``wanted``, by topic id.

    Nothing can be missed before the first cleaning, so appends are followed from then on, or from
    :meth:`follow` on: a replica that went away before that cleaning has a known end then.
    """

    def __init__(self, trace: FactSource, wanted: Callable[[str], bool]) -> None:
        self._trace = trace
        self._wanted = wanted
        self._ends: dict[Replica, int] = {}  # log end offsets
        self._removed: dict[PartitionKey, dict[int, None]] = {}  # offsets, by whichever cleaner
        self._missed: dict[Replica, dict[int, None]] = {}  # offsets
        self._follows = False
        for kind, handler in (
            (facts.Truncated, self._on_truncated),
            (facts.LogLoaded, self._on_loaded),
            (facts.Cleaned, self._on_cleaned),
        ):
            trace.subscribe(kind, handler)

    def follow(self) -> None:
        """Follow what replicas append from now on."""
        if not self._follows:
            self._follows = True
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.Replicated, self._on_replicated)

    def by(self, node: str, key: PartitionKey) -> Container[int]:
        """Return the offsets below its end that a replica has not copied."""
        return self._missed.get((node, key), ())

    def of(self, key: PartitionKey) -> list[Container[int]]:
        """Return the offsets that each replica of a partition has not copied, if there are any."""
        return [missed for (_, at), missed in self._missed.items() if at == key and missed]

    def _on_appended(self, _seq: int, _t: int, node: str, fact: facts.Appended) -> None:
        if self._wanted(fact.topic_id):
            self._ends[node, (fact.topic_id, fact.partition)] = fact.next_offset

    def _on_replicated(self, _seq: int, _t: int, node: str, fact: facts.Replicated) -> None:
        if not self._wanted(fact.topic_id):
            return
        key = (fact.topic_id, fact.partition)
        end = self._ends.get((node, key), fact.base_offset)
        self._ends[node, key] = fact.next_offset
        removed = self._removed.get(key, ())
        missed = dict.fromkeys(at for at in range(end, fact.next_offset) if at in removed)
        self._missed.setdefault((node, key), {}).update(missed)

    def _on_truncated(self, _seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        self._cut(node, (fact.topic_id, fact.partition), fact.offset)

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        self._cut(node, (fact.topic_id, fact.partition), fact.log_end_offset)

    def _cut(self, node: str, key: PartitionKey, end: int) -> None:
        """Note the end of a log; what it had missed behind it, it may copy now."""
        if self._wanted(key[0]):
            self._ends[node, key] = end
            missed = self._missed.get((node, key), {})
            self._missed[node, key] = {each: None for each in missed if each < end}

    def _on_cleaned(self, _seq: int, _t: int, _node: str, fact: facts.Cleaned) -> None:
        if not self._wanted(fact.topic_id):
            return
        self.follow()
        removed = self._removed.setdefault((fact.topic_id, fact.partition), {})
        removed.update(dict.fromkeys(fact.removed_offsets()))
