"""What applications did in transactions, what coordinators decided, and where the records are.

A transaction here is the application's: from beginTransaction to its end, with the records that
were put into the accumulator, and the offsets of groups. Its outcome is what the producer was told;
after a crash, a fencing or a timeout nobody has told it.

An append tells the producer id and epoch of its records, so a record at an offset belongs to the
last transaction that has sent it under them.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

NEVER = 1 << 62

DECIDED = ("PrepareCommit", "CompleteCommit")
"""States of a coordinator in which a transaction is committed for good."""

Batch = tuple[PartitionKey, int, int, int]
"""Partition, producer id, epoch and first sequence."""


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
    def name(self) -> str:
        """The transaction in words."""
        return f"transaction {self.number} of {self.transactional_id} on {self.node}"


class TransactionHistory:
    """The transactions of a run, in the order in which they began."""

    def __init__(self, trace: FactSource) -> None:
        self.transactions: list[Transaction] = []
        self.ids: dict[int, str] = {}  # producer id -> transactional id
        self.with_record: dict[tuple[PartitionKey, int], list[Transaction]] = {}
        self.unanswered: dict[tuple[PartitionKey, int], None] = {}
        """Records, by partition and id, whose send failed and may reach a leader all the same"""
        self.late: dict[tuple[PartitionKey, int], None] = {}
        """Partitions and offsets of such records that a leader appended in a later transaction"""
        self.unverified: dict[tuple[PartitionKey, int], None] = {}
        """Partitions and producer ids for which a leader has asked no coordinator"""
        self.decided: dict[str, int] = {}  # transactional id -> the row of its last commit
        self.told: dict[str, list[tuple[int, str]]] = {}  # id -> its states, with their rows
        self.loaded = -1  # the last row in which a coordinator began with the log of another
        self._topics: dict[str, str] = {}  # topic id -> name
        self._added: dict[tuple[int, str], int] = {}
        """By producer id and topic-partition: the epoch with which a transaction added it; a marker
        takes it out"""
        self._of_producer: dict[int, Transaction] = {}  # the last transaction of a producer id
        self._current: dict[tuple[str, str], Transaction] = {}  # by node and transactional id
        self._owners: dict[tuple[str, str], int] = {}
        self._epochs: dict[tuple[str, int, int], int] = {}  # (id, producer id, epoch) -> first row
        self._owner: dict[PartitionKey, dict[tuple[int, int], Transaction]] = {}
        """By offset and record id"""
        self._appended: dict[tuple[int, PartitionKey, int], list[tuple[int, int]]] = {}
        """By the row of a transaction's begin, partition and record id: offsets, with the rows"""
        self._batches: dict[Batch, tuple[int, ...]] = {}  # the records of the last append
        follow(trace, self)

    # What is asked.

    def transaction_at(self, key: PartitionKey, offset: int, record_id: int) -> Transaction | None:
        """Return the transaction of a record that was appended at an offset; None without one."""
        return self._owner.get(key, {}).get((offset, record_id))

    def appended(
        self, transaction: Transaction, key: PartitionKey, record_id: int
    ) -> list[tuple[int, int]]:
        """Return the offsets at which a transaction's record was appended, with the rows."""
        return self._appended.get((transaction.begun, key, record_id), [])

    def epoch_since(self, transactional_id: str, producer_id: int, epoch: int) -> int:
        """Return the row in which a coordinator told first of a producer's epoch, −1 for none."""
        return self._epochs.get((transactional_id, producer_id, epoch), -1)

    def took(self, fact: facts.Acked) -> bool:
        """Return whether a leader has other records under this sequence than it acknowledged.

        It took the batch for a duplicate (ProducerStateEntry.findDuplicateBatch), and the offset is
        that of the other records.
        """
        return self._batches.get(_batch(fact), fact.record_ids) != fact.record_ids

    # What applications and producers tell.

    def on_TransactionBegun(
        self, seq: int, _t: int, node: str, fact: facts.TransactionBegun
    ) -> None:
        """Take a transaction."""
        id_ = fact.transactional_id
        if fact.number == 0:
            self._owners[node, id_] = self._owners.get((node, id_), 0) + 1
        owner = self._owners[node, id_]
        begun = Transaction(
            id_, node, owner, fact.number, fact.producer_id, fact.producer_epoch, seq
        )
        self.transactions.append(begun)
        self.ids[fact.producer_id] = id_
        self._current[node, id_] = self._of_producer[fact.producer_id] = begun

    def on_TransactionSent(self, _s: int, _t: int, node: str, fact: facts.TransactionSent) -> None:
        """Take a record."""
        transaction = self._current[node, fact.transactional_id]
        record = ((fact.topic_id, fact.partition), fact.record_id)
        transaction.records[record] = None
        self.with_record.setdefault(record, []).append(transaction)

    def on_TransactionOffsets(
        self, _seq: int, _t: int, node: str, fact: facts.TransactionOffsets
    ) -> None:
        """Take an offset of a group."""
        transaction = self._current[node, fact.transactional_id]
        transaction.offsets[fact.group, fact.topic, fact.partition] = fact.offset

    def on_TransactionEnding(
        self, seq: int, _t: int, node: str, fact: facts.TransactionEnding
    ) -> None:
        """Take a commit that was asked for."""
        if fact.committing:
            self._current[node, fact.transactional_id].commit_asked = seq

    def on_TransactionEnded(
        self, seq: int, _t: int, node: str, fact: facts.TransactionEnded
    ) -> None:
        """Take an outcome."""
        transaction = self._current[node, fact.transactional_id]
        transaction.outcome = fact.outcome
        transaction.ended = seq

    def on_SendFailed(self, _seq: int, _t: int, _node: str, fact: facts.SendFailed) -> None:
        """Take records of transactions that may still come."""
        for record_id in fact.record_ids if fact.indeterminate and self.transactions else ():
            self.unanswered[(fact.topic_id, fact.partition), record_id] = None

    # What coordinators and leaders tell.

    def on_TopicCreated(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Take the name of a topic."""
        self._topics[fact.topic_id] = fact.topic

    def on_MarkerWritten(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        """Take the end of a transaction in a partition."""
        name = f"{self._topics.get(fact.topic_id)}-{fact.partition}"
        self._added.pop((fact.producer_id, name), None)

    def on_TransactionState(
        self, seq: int, _t: int, _node: str, fact: facts.TransactionState
    ) -> None:
        """Take a decision, and the first row of an epoch."""
        if fact.state in DECIDED:
            self.decided[fact.transactional_id] = seq
        self.told.setdefault(fact.transactional_id, []).append((seq, fact.state))
        producer = (fact.transactional_id, fact.producer_id, fact.producer_epoch)
        self._epochs.setdefault(producer, seq)
        for place in fact.assignment if fact.state == "Ongoing" else ():
            self._added[fact.producer_id, place] = fact.producer_epoch

    def on_TransactionsLoaded(
        self, seq: int, _t: int, _node: str, fact: facts.TransactionsLoaded
    ) -> None:
        """Reckon with what a coordinator finds in the log, and does not tell again."""
        if fact.loaded:
            self.loaded = seq

    def on_VerificationSkipped(
        self, _seq: int, _t: int, _node: str, fact: facts.VerificationSkipped
    ) -> None:
        """Take a batch of which no coordinator was asked."""
        self.unverified[(fact.topic_id, fact.partition), fact.producer_id] = None

    def on_Appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        """Take where the records of a transaction are."""
        if fact.producer_id not in self.ids or not fact.record_ids:
            return
        self._batches[_batch(fact)] = fact.record_ids
        key = (fact.topic_id, fact.partition)
        owner = self._owner.setdefault(key, {})
        name = f"{self._topics.get(fact.topic_id)}-{fact.partition}"
        verified = self._added.get((fact.producer_id, name)) == fact.producer_epoch
        for offset, record_id in enumerate(fact.record_ids, fact.base_offset):
            of = self._owner_of(key, record_id, fact)
            if of is None:
                continue
            owner[offset, record_id] = of
            self._appended.setdefault((of.begun, key, record_id), []).append((offset, seq))
            later = of is not self._of_producer[fact.producer_id]
            if verified and later and (key, record_id) in self.unanswered:
                self.late[key, offset] = None

    def _owner_of(
        self, key: PartitionKey, record_id: int, fact: facts.Appended
    ) -> Transaction | None:
        """Return the last transaction that sent a record under the producer id and epoch."""
        for transaction in reversed(self.with_record.get((key, record_id), [])):
            sent_by = (transaction.producer_id, transaction.producer_epoch)
            if sent_by == (fact.producer_id, fact.producer_epoch):
                return transaction
        return None


def _batch(fact: facts.Appended | facts.Acked) -> Batch:
    key = (fact.topic_id, fact.partition)
    return key, fact.producer_id, fact.producer_epoch, fact.base_sequence
