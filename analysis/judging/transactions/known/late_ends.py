"""Transactions that an earlier request of their producer ended: a flaw of transaction.version 1.

A producer whose EndTxn is not answered within request.timeout.ms asks again on another connection.
The first request may still be on its way, and reach the coordinator after the next transaction of
this producer has begun. It names the producer id and its epoch, which is the same one, so the
coordinator ends that transaction (TransactionCoordinator.endTransaction): records are committed
that the application goes on to abort, or the other way round. Under transaction.version 2 each
transaction has an epoch of its own, and the late request is refused (KIP-890).
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

LATE_END = "late-end"
"""The excuse of what :class:`LateEnds` explains."""

COMMITTING = {"PrepareCommit": True, "PrepareAbort": False}


@dataclass(slots=True)
class _Open:
    """The last transaction of a producer id."""

    producer_epoch: int
    begun: int  # the row in which it began
    asked_us: dict[bool, int]  # when its commit (True) or abort was asked for


class LateEnds:
    """Follows decisions that nobody had asked for in the transaction that they ended."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._timeouts: dict[str, int] = {}  # node -> request.timeout.ms, in µs
        self._ids: dict[tuple[str, str], int] = {}  # (node, transactional id) -> producer id
        self._open: dict[int, _Open] = {}  # by producer id
        self._repeated: dict[tuple[int, int, bool], None] = {}
        """Producer id, epoch and decision for which the answer took longer than a request may"""
        self._late: dict[int, int] = {}  # begin of a transaction -> row of the late end
        trace.subscribe(facts.TimeLimit, self._on_limit)
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, begun: int, seq: int = 1 << 62) -> str:
        """Return :data:`LATE_END` if the transaction that began in a row was ended before ``seq``
        by an earlier one's request, else ""."""
        return LATE_END if self._late.get(begun, 1 << 62) < seq else ""

    def _on_limit(self, _seq: int, _t: int, node: str, fact: facts.TimeLimit) -> None:
        if fact.config == "request.timeout.ms":
            known = self._timeouts.get(node, fact.limit_us)
            self._timeouts[node] = min(known, fact.limit_us)

    def _on_begun(self, seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        if not self._open:
            self._trace.subscribe(facts.TransactionEnding, self._on_ending)
            self._trace.subscribe(facts.TransactionEnded, self._on_ended)
            self._trace.subscribe(facts.TransactionState, self._on_state)
        self._ids[node, fact.transactional_id] = fact.producer_id
        self._open[fact.producer_id] = _Open(fact.producer_epoch, seq, {})

    def _on_ending(self, _seq: int, t: int, node: str, fact: facts.TransactionEnding) -> None:
        asked = self._open[self._ids[node, fact.transactional_id]].asked_us
        asked.setdefault(fact.committing, t)

    def _on_ended(self, _seq: int, t: int, node: str, fact: facts.TransactionEnded) -> None:
        producer_id = self._ids[node, fact.transactional_id]
        ended = self._open[producer_id]
        for committing, asked_us in ended.asked_us.items():
            if t - asked_us >= self._timeouts.get(node, 1 << 62):
                self._repeated[producer_id, ended.producer_epoch, committing] = None

    def _on_state(self, seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        now = self._open.get(fact.producer_id)
        committing = COMMITTING.get(fact.state)
        if now is None or committing is None or committing in now.asked_us:
            return
        if (fact.reason, fact.before) == ("end", "Ongoing"):
            if (fact.producer_id, now.producer_epoch, committing) in self._repeated:
                if fact.producer_epoch == now.producer_epoch:
                    self._late.setdefault(now.begun, seq)
