"""Observations about transactions; see ``language/vocabulary.py:OBSERVATIONS``."""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.transaction.metadata import is_epoch_exhausted

LONG_US = 1_000_000
"""From this age on an open transaction counts as long."""

OUTCOMES = {
    "committed": "transaction-committed",
    "aborted": "transaction-aborted",
    "fenced": "producer-fenced",
}


class TransactionObserver:
    """Tells ``note(observation, µs)`` what a run shows of transactions."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._note = note
        self._trace = trace
        self._coordinators: dict[str, str] = {}  # transactional id -> node
        self._last: dict[str, tuple[int, int]] = {}  # its last producer id and epoch
        self._transactional: dict[int, None] = {}  # producer ids
        self._open: dict[tuple[PartitionKey, int], int] = {}  # the time of the first append, in µs
        self._records: dict[PartitionKey, dict[int, int]] = {}  # open: record id -> producer id
        trace.subscribe(facts.TransactionBegun, self._on_begun)
        trace.subscribe(facts.TransactionEnded, self._on_ended)
        trace.subscribe(facts.TransactionState, self._on_state)
        trace.subscribe(facts.MarkerWritten, self._on_marker)

    def _on_begun(self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        if not self._transactional:
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.Polled, self._on_polled)
        self._transactional[fact.producer_id] = None

    def _on_ended(self, _seq: int, t_us: int, _node: str, fact: facts.TransactionEnded) -> None:
        name = OUTCOMES.get(fact.outcome)
        if name is not None:
            self._note(name, t_us)

    def _on_state(self, _seq: int, t_us: int, node: str, fact: facts.TransactionState) -> None:
        if fact.reason == "timeout":
            self._note("transaction-timed-out", t_us)
        if self._coordinators.setdefault(fact.transactional_id, node) != node:
            self._coordinators[fact.transactional_id] = node
            self._note("transaction-coordinator-moved", t_us)
        producer = (fact.producer_id, fact.producer_epoch)
        last = self._last.get(fact.transactional_id, producer)
        self._last[fact.transactional_id] = producer
        if last[0] != producer[0] and is_epoch_exhausted(last[1]):
            self._note("producer-id-rotated", t_us)

    def _on_appended(self, _seq: int, t_us: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id in self._transactional and fact.record_ids:
            key = (fact.topic_id, fact.partition)
            self._open.setdefault((key, fact.producer_id), t_us)
            known = self._records.setdefault(key, {})
            known.update(dict.fromkeys(fact.record_ids, fact.producer_id))

    def _on_marker(self, _seq: int, t_us: int, _node: str, fact: facts.MarkerWritten) -> None:
        key = (fact.topic_id, fact.partition)
        since = self._open.pop((key, fact.producer_id), t_us)
        known = self._records.get(key, {})
        for record_id in [each for each, owner in known.items() if owner == fact.producer_id]:
            del known[record_id]
        if t_us - since >= LONG_US:
            self._note("long-transaction", t_us)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        known = self._records.get((fact.topic_id, fact.partition))
        if known and any(record_id in known for record_id in fact.record_ids):
            self._note("open-transaction-read", t_us)
