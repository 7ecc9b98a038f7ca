"""Where the records of transactions are: which offset is whose, and what the markers say of it.

An append tells the producer id and epoch of its records, so a record at an offset belongs to the
last transaction that has sent it under them. Another leader may append another record there, after
a truncation. At the end of the run a leader's log and the markers in it say of each offset whether
it is committed, aborted or open.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, final_leaders
from kafkasim.analysis.judging.transactions.holes import Holes
from kafkasim.analysis.judging.transactions.ledger import Ledger, Transaction
from kafkasim.model import facts

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"


class Placed:
    """The offsets of transactional records, and the markers behind them."""

    def __init__(self, trace: FactSource, ledger: Ledger, holes: Holes) -> None:
        self._ledger = ledger
        self._holes = holes
        self._owner: dict[PartitionKey, dict[tuple[int, int], Transaction]] = {}
        """By offset and record id"""
        self._appended: dict[tuple[int, PartitionKey, int], list[tuple[int, int]]] = {}
        """By the row of a transaction's begin, partition and record id: offsets, with the rows"""
        self._markers: dict[tuple[PartitionKey, int, int], facts.MarkerWritten] = {}
        self.leaders = final_leaders(trace)
        self._trace = trace
        self._follows = False
        trace.subscribe(facts.TransactionBegun, self._on_begun)
        trace.subscribe(facts.MarkerWritten, self._on_marker)

    def transaction_at(self, key: PartitionKey, offset: int, record_id: int) -> Transaction | None:
        """Return the transaction of a record that was appended at an offset; None without one."""
        return self._owner.get(key, {}).get((offset, record_id))

    def appended(
        self, transaction: Transaction, key: PartitionKey, record_id: int
    ) -> list[tuple[int, int]]:
        """Return the offsets at which a transaction's record was appended, with the rows."""
        return self._appended.get((transaction.begun, key, record_id), [])

    def states(self, key: PartitionKey) -> Iterator[tuple[int, int, str]]:
        """Yield (offset, record id, state) of the records in a final leader's log.

        The state is committed for a record without a transaction, too. Records below the log start
        are left out.
        """
        leader = self.leaders[key]
        start = leader.log_start_offset
        offsets = self._holes.record_offsets(leader)
        undecided: dict[int, list[tuple[int, int]]] = {}
        position = 0
        columns = zip(
            leader.base_offsets, leader.batch_epochs, leader.producer_ids, leader.record_counts
        )
        for base, epoch, producer_id, count in columns:
            marker = self._markers.get((key, base, epoch)) if not count else None
            until = position + count
            records = [*zip(offsets[position:until], leader.record_ids[position:until])]
            position = until
            if marker is not None:
                state = COMMITTED if marker.committed else ABORTED
                for offset, record_id in undecided.pop(marker.producer_id, ()):
                    yield offset, record_id, state
            elif producer_id in self._ledger.producer_ids:
                undecided.setdefault(producer_id, []).extend(
                    record for record in records if record[0] >= start
                )
            else:
                for offset, record_id in records:
                    if offset >= start:
                        yield offset, record_id, COMMITTED
        for found in undecided.values():
            for offset, record_id in found:
                yield offset, record_id, OPEN

    def _on_begun(self, _seq: int, _t: int, _node: str, _fact: facts.TransactionBegun) -> None:
        """Follow the appends from the first transaction on: without one they cost nothing."""
        if not self._follows:
            self._follows = True
            self._trace.subscribe(facts.Appended, self._on_appended)

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id not in self._ledger.producer_ids:
            return
        key = (fact.topic_id, fact.partition)
        owner = self._owner.setdefault(key, {})
        producer = (fact.producer_id, fact.producer_epoch)
        for index, record_id in enumerate(fact.record_ids):
            transaction = self._ledger.of_record(key, record_id, producer)
            if transaction is not None:
                owner[fact.base_offset + index, record_id] = transaction
                places = self._appended.setdefault((transaction.begun, key, record_id), [])
                places.append((fact.base_offset + index, seq))

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        key = (fact.topic_id, fact.partition)
        self._markers[(key, fact.offset, fact.leader_epoch)] = fact
