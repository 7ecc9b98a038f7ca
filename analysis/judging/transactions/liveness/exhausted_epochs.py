"""Transactions that are open for ever, because their producer id has no epoch left to end them.

Under transaction.version 2 each end raises the epoch, and so does a fence. Under epoch 32767 the
next one overflows: TransactionMetadata.prepareAbortOrCommit throws IllegalArgumentException (EndTxn
is answered with UNKNOWN_SERVER_ERROR), and prepareFenceProducerEpoch throws IllegalStateException
(a timeout, InitProducerId). Two ways lead there; ``model/KAFKA.md``, 4.4:

- 4.1.0 and 4.2.0 abort a transaction of epoch 32766 that timed out under 32767, and give its
  producer no other id. The producer's own abort is answered as one that was repeated, with 32767.
- 4.0.0 raises the epoch in memory before it prepares that abort, which raises it again.

Either way the last epoch that the coordinator has stored is 32766 or 32767. Attempts that were not
written use up no epochs, however many they are (hasFailedEpochFence, KAFKA-9666).

The exception ends the coordinator's search for transactions that timed out, each time. So those
that it would have found later stay open, too (TransactionCoordinator.abortTimedOutTransactions).
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts

LEAST_STORED = 32766
"""The epoch under which the next end, or the fence before it, may overflow."""

EXHAUSTED = "epochs-exhausted"
"""The excuse of what :class:`ExhaustedEpochs` explains."""


class ExhaustedEpochs:
    """Follows the transactions that coordinators have tried to end in vain."""

    def __init__(self, trace: FactSource) -> None:
        self._exhausted: dict[str, int] = {}  # transactional id -> producer id
        self._open: dict[str, tuple[int, str]] = {}  # the same, and its coordinator
        self._stored: dict[str, int] = {}  # transactional id -> epoch
        self._searches: dict[str, dict[str, None]] = {}  # coordinator -> ids that end its searches
        trace.subscribe(facts.TransactionState, self._on_state)
        trace.subscribe(facts.EpochsExhausted, self._on_exhausted)

    def excuse(self, transactional_id: str, producer_id: int | None = None) -> str:
        """Return :data:`EXHAUSTED` if the coordinator cannot end the open transaction of an id,
        else "". ``producer_id``: that of the transaction, None for any."""
        found = self._exhausted.get(transactional_id)
        if found is None:
            found, coordinator = self._open.get(transactional_id, (None, ""))
            if not self._searches.get(coordinator):
                return ""
        return EXHAUSTED if found is not None and producer_id in (None, found) else ""

    def _on_state(self, _seq: int, _t: int, node: str, fact: facts.TransactionState) -> None:
        of = fact.transactional_id
        self._stored[of] = fact.producer_epoch
        self._exhausted.pop(of, None)
        self._open.pop(of, None)
        for ids in self._searches.values():
            ids.pop(of, None)
        if fact.state == "Ongoing":
            self._open[of] = fact.producer_id, node

    def _on_exhausted(self, _seq: int, _t: int, node: str, fact: facts.EpochsExhausted) -> None:
        if self._stored.get(fact.transactional_id, -1) < LEAST_STORED:
            return
        self._exhausted[fact.transactional_id] = fact.producer_id
        if fact.reason == "timeout":
            self._searches.setdefault(node, {})[fact.transactional_id] = None
