"""Transactions that a coordinator knew from records above the high watermark, and then lost.

A new coordinator loads its partition of ``__transaction_state`` up to the log end
(TransactionStateManager.loadTransactionMetadata, FetchIsolation.LOG_END). To who asks for a
partition that the loaded transaction has already it answers at once, without an append
(TransactionCoordinator.handleAddPartitionsToTransaction, "this is an optimization"; 2.8 to 4.2). So
a leader takes the batch for verified, although the record that says so is not committed. If another
replica becomes leader before it is, the record is legally gone, and the next coordinator knows
nothing of the transaction in this partition: it completes the transaction elsewhere, or has none to
complete, and the batch stays open until an operator aborts it (KIP-664).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.records import TRANSACTION_STATE_TOPIC

UNCOMMITTED_LOAD = "uncommitted-load"
"""The excuse of what :class:`UncommittedLoads` explains."""

Place = tuple[PartitionKey, int]
"""A partition and a producer id"""


@dataclass(frozen=True, slots=True)
class Tail:
    """What a leader of a partition of ``__transaction_state`` has above the high watermark."""

    leader_epoch: int
    first: int  # offset
    end: int  # the offset after the last one; ``first`` or less: all are committed

    def above(self, high_watermark: int) -> Tail:
        """Return what of the tail lies above a later high watermark."""
        return Tail(self.leader_epoch, max(self.first, high_watermark), self.end)


class UncommittedLoads:
    """Follows batches whose transaction only an uncommitted record can have told.

    ``footing`` names the partitions of transactional ids.
    """

    def __init__(self, trace: FactSource, footing: Footing) -> None:
        self._footing = footing
        self._topic_id = ""  # of __transaction_state
        self._tails: dict[int, Tail] = {}  # by partition, of its leader
        self._loaded: dict[int, Tail] = {}  # by partition, of those that a coordinator has read
        self._ids: dict[int, str] = {}  # producer id -> transactional id
        self._told: dict[str, tuple[str, ...]] = {}  # id -> partitions of the committed transaction
        self._rests: dict[Place, tuple[int, Tail]] = {}  # on this tail of a partition
        self._lost: dict[Place, None] = {}
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.BecameLeader, self._on_leader),
            (facts.HighWatermark, self._on_high_watermark),
            (facts.TransactionsLoaded, self._on_loaded),
            (facts.TransactionBegun, self._on_begun),
            (facts.TransactionState, self._on_state),
            (facts.Appended, self._on_appended),
            (facts.MarkerWritten, self._on_marker),
        ):
            trace.subscribe(kind, handler)

    def excuse(self, key: PartitionKey, producer_id: int) -> str:
        """Return :data:`UNCOMMITTED_LOAD` if the record that told of a producer's open transaction
        in a partition was lost before it was committed, else ""."""
        return UNCOMMITTED_LOAD if (key, producer_id) in self._lost else ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic == TRANSACTION_STATE_TOPIC:
            self._topic_id = fact.topic_id

    def _on_leader(self, _seq: int, _t: int, _node: str, fact: facts.BecameLeader) -> None:
        if fact.topic_id != self._topic_id:
            return
        number, end = fact.partition, fact.start_offset
        self._tails[number] = Tail(fact.leader_epoch, fact.high_watermark, end)
        self._loaded.pop(number, None)
        for place, (of, tail) in list(self._rests.items()):
            if of == number and tail.first <= end < tail.end:
                del self._rests[place]
                self._lost[place] = None

    def _on_high_watermark(self, _s: int, _t: int, _n: str, fact: facts.HighWatermark) -> None:
        if fact.topic_id != self._topic_id:
            return
        number = fact.partition
        for tails in (self._tails, self._loaded):
            if number in tails:
                tails[number] = tails[number].above(fact.high_watermark)
        for place, (of, tail) in list(self._rests.items()):
            if of == number:
                self._rests[place] = of, tail.above(fact.high_watermark)

    def _on_loaded(self, _seq: int, _t: int, _node: str, fact: facts.TransactionsLoaded) -> None:
        tail = self._tails.get(fact.partition)
        if fact.loaded and tail is not None and tail.leader_epoch == fact.leader_epoch:
            self._loaded[fact.partition] = tail

    def _on_begun(self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        self._ids[fact.producer_id] = fact.transactional_id

    def _on_state(self, _seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        self._told[fact.transactional_id] = fact.assignment

    def _on_appended(self, _seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if not self._loaded or fact.producer_id not in self._ids:
            return
        key, of = (fact.topic_id, fact.partition), self._ids[fact.producer_id]
        number = self._footing.of_id(of, -1).key[1]
        tail = self._loaded.get(number)
        if tail is None or tail.first >= tail.end:
            return
        if self._footing.name_of(key) not in self._told.get(of, ()):
            self._rests.setdefault((key, fact.producer_id), (number, tail))

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        place = ((fact.topic_id, fact.partition), fact.producer_id)
        self._rests.pop(place, None)
        self._lost.pop(place, None)
