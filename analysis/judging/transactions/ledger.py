"""What applications did in transactions, by the facts of their producers.

A transaction here is the application's: from beginTransaction to its end, with the records that
were put into the accumulator, and the offsets of groups. Its outcome is what the producer was told;
after a crash, a fencing or a timeout nobody has told it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

NEVER = 1 << 62


@dataclass(slots=True)
class Transaction:
    """One transaction of an application."""

    transactional_id: str
    node: str
    owner: int  # counts the producer objects of its transactional id on that node
    number: int
    producer_id: int
    producer_epoch: int
    begun: int  # the row in which it began, as the next two
    commit_asked: int = NEVER
    ended: int = NEVER
    outcome: str = ""  # committed | aborted | fenced | failed, "" while nobody knows
    records: dict[tuple[PartitionKey, int], None] = field(default_factory=dict)  # (…, record id)
    offsets: dict[tuple[str, str, int], int] = field(default_factory=dict)  # by group, topic, …

    @property
    def producer(self) -> tuple[int, int]:
        """Producer id and epoch."""
        return self.producer_id, self.producer_epoch

    @property
    def name(self) -> str:
        """The transaction in words."""
        return f"transaction {self.number} of {self.transactional_id} on {self.node}"


class Ledger:
    """The transactions of a run, in the order in which they began."""

    def __init__(self, trace: FactSource) -> None:
        self.transactions: list[Transaction] = []
        self.producer_ids: dict[int, None] = {}
        self.with_record: dict[tuple[PartitionKey, int], list[Transaction]] = {}
        self._current: dict[tuple[str, str], Transaction] = {}  # by node and transactional id
        self._owners: dict[tuple[str, str], int] = {}
        for kind, handler in (
            (facts.TransactionBegun, self._on_begun),
            (facts.TransactionSent, self._on_sent),
            (facts.TransactionOffsets, self._on_offsets),
            (facts.TransactionEnding, self._on_ending),
            (facts.TransactionEnded, self._on_ended),
        ):
            trace.subscribe(kind, handler)

    def of_record(
        self, key: PartitionKey, record_id: int, producer: tuple[int, int]
    ) -> Transaction | None:
        """Return the last transaction that has sent a record with this producer id and epoch."""
        for transaction in reversed(self.with_record.get((key, record_id), [])):
            if (transaction.producer_id, transaction.producer_epoch) == producer:
                return transaction
        return None

    def _on_begun(self, seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        place = (node, fact.transactional_id)
        if fact.number == 0:
            self._owners[place] = self._owners.get(place, 0) + 1
        begun = Transaction(
            fact.transactional_id,
            node,
            self._owners[place],
            fact.number,
            fact.producer_id,
            fact.producer_epoch,
            seq,
        )
        self.transactions.append(begun)
        self.producer_ids[fact.producer_id] = None
        self._current[place] = begun

    def _on_sent(self, _seq: int, _t: int, node: str, fact: facts.TransactionSent) -> None:
        transaction = self._current[(node, fact.transactional_id)]
        record = ((fact.topic_id, fact.partition), fact.record_id)
        transaction.records[record] = None
        self.with_record.setdefault(record, []).append(transaction)

    def _on_offsets(self, _seq: int, _t: int, node: str, fact: facts.TransactionOffsets) -> None:
        transaction = self._current[(node, fact.transactional_id)]
        transaction.offsets[(fact.group, fact.topic, fact.partition)] = fact.offset

    def _on_ending(self, seq: int, _t: int, node: str, fact: facts.TransactionEnding) -> None:
        if fact.committing:
            self._current[(node, fact.transactional_id)].commit_asked = seq

    def _on_ended(self, seq: int, _t: int, node: str, fact: facts.TransactionEnded) -> None:
        transaction = self._current[(node, fact.transactional_id)]
        transaction.outcome = fact.outcome
        transaction.ended = seq
