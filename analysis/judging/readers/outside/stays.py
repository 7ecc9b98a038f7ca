"""How long a record stays in its partition's log, as the leaders tell.

A record has left the log when a leader of a later epoch appends at its offset, or below: that
leader does not have it. A replica that has it may still be elected afterwards, if it was deposed
and has not fetched since (``judging/history/contents.py``): then the record is in the log again.
A deposed leader that has not heard of the election still exposes it, until its last high watermark.
What the partition loses later is another record at this offset.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.footing import END
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


@dataclass(frozen=True, slots=True)
class _Wrote:
    """A replica appended batches, its own or fetched ones."""

    row: int
    node: str
    epoch: int  # of the batches
    base: int
    end: int
    leads: bool


@dataclass(frozen=True, slots=True)
class _Led:
    """A replica became leader with a log of this end."""

    row: int
    node: str
    end: int


@dataclass(slots=True)
class _Log:
    events: list[_Wrote | _Led] = field(default_factory=list)
    highest: int = -1  # leader epoch in which a leader has appended
    exposed: dict[int, int] = field(default_factory=dict)  # epoch -> row of its last high watermark


class Stays:
    """Follows all partitions from :meth:`follow` on."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._logs: dict[PartitionKey, _Log] = {}

    def follow(self) -> None:
        """Follow what brokers append from now on."""
        self._trace.subscribe(facts.Appended, self._on_appended)
        self._trace.subscribe(facts.Replicated, self._on_replicated)
        self._trace.subscribe(facts.BecameLeader, self._on_leader)
        self._trace.subscribe(facts.HighWatermark, self._on_high_watermark)

    def until(self, key: PartitionKey, offset: int, epoch: int, row: int) -> int:
        """Return the row before which a record was in the log that a leader appended in ``row``."""
        log = self._logs[key]
        if log.highest <= epoch:
            return END
        left = END
        has: dict[str, int] = {}  # node -> epoch of what it wrote at the offset last
        for event in log.events:
            if isinstance(event, _Led):
                if event.row > row and offset < event.end and has.get(event.node) == epoch:
                    left = END
                continue
            if event.base <= offset < event.end:
                has[event.node] = event.epoch
            again = event.leads and event.row > row and event.epoch > epoch
            if again and event.base <= offset and left == END:
                left = event.row
        return max(left, log.exposed.get(epoch, -1) + 1)

    def _log(self, fact: facts.Appended | facts.Replicated | facts.BecameLeader) -> _Log:
        return self._logs.setdefault((fact.topic_id, fact.partition), _Log())

    def _on_appended(self, seq: int, _t: int, node: str, fact: facts.Appended) -> None:
        log, epoch = self._log(fact), fact.leader_epoch
        log.events.append(_Wrote(seq, node, epoch, fact.base_offset, fact.next_offset, True))
        log.highest = max(log.highest, epoch)

    def _on_replicated(self, seq: int, _t: int, node: str, fact: facts.Replicated) -> None:
        wrote = _Wrote(seq, node, fact.batch_epoch, fact.base_offset, fact.next_offset, False)
        self._log(fact).events.append(wrote)

    def _on_leader(self, seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        self._log(fact).events.append(_Led(seq, node, fact.start_offset))

    def _on_high_watermark(self, seq: int, _t: int, _node: str, fact: facts.HighWatermark) -> None:
        log = self._logs.get((fact.topic_id, fact.partition))
        if log is not None:
            log.exposed[fact.leader_epoch] = seq
