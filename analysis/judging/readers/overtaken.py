"""Groups that retention overtakes: records deleted before a group has read them.

Retention deletes segments by age and size, whatever the groups have read (UnifiedLog
.deleteOldSegments). A position below the log start gets OFFSET_OUT_OF_RANGE, and auto.offset.reset
moves it: to the log start, to the end, or nowhere (``none``: poll() raises). The records that it
passes over were acknowledged, and no replica has lost them; they are lost to the group alone.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.delivery import Delivery
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.passed import Readers
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

RESETS = ("earliest", "latest")


class LostToRetention:
    """Follows one run; :meth:`finish` returns an anomaly for each partition and group.

    A record that another member of the group got is not lost. Nothing excuses the rest: a scenario
    permits it, because its retention is shorter than the group's lag.
    """

    def __init__(
        self,
        trace: FactSource,
        readers: Readers,
        delivery: Delivery,
        note: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """``note(observation, µs)`` is told ``overtaken``."""
        self._readers = readers
        self._delivery = delivery
        self._note = note
        self._deleted: dict[PartitionKey, int] = {}  # the end of what retention has deleted
        # By group and partition: what resets have passed over, as first offset, end, and row.
        self._passed: dict[tuple[str, PartitionKey], list[tuple[int, int, int]]] = {}
        trace.subscribe(facts.LogStart, self._on_log_start)
        trace.subscribe(facts.Positioned, self._on_positioned)

    def _on_log_start(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        if fact.reason == "retention":
            key = (fact.topic_id, fact.partition)
            self._deleted[key] = max(fact.offset, self._deleted.get(key, 0))

    def _on_positioned(self, seq: int, t_us: int, _node: str, fact: facts.Positioned) -> None:
        key = (fact.topic_id, fact.partition)
        before = self._readers.of(fact.group, fact.member_id, key).before
        if before < 0 or fact.reason not in RESETS:
            return
        if before < fact.offset and before < self._deleted.get(key, 0):
            self._passed.setdefault((fact.group, key), []).append((before, fact.offset, seq))
            self._note("overtaken", t_us)

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition and group."""
        found = []
        for (group, key), ranges in sorted(self._passed.items(), key=lambda each: each[0][::-1]):
            delivered, holes = self._delivery.delivered(group, key), self._delivery.holes
            committed_only = holes.was_read_committed(group, key)
            lost = {
                offset: seq
                for first, end, seq in ranges
                for offset in range(first, end)
                if offset not in delivered and holes.holds(key, offset, committed_only)
            }
            if lost:
                offset, seq = min(lost.items())
                detail = f"group {group} did not get offset {offset} before retention deleted it"
                found.append(
                    Finding("lost-to-retention", *key, detail, len(lost), offset=offset,
                            group=group, seq=seq)
                )  # fmt: skip
        return found
