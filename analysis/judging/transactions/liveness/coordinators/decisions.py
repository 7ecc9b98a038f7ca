"""Transactions that are decided: their coordinator has written PrepareCommit or PrepareAbort.

It sends the markers and completes the transaction once all of them are confirmed
(TransactionMarkerChannelManager). Until then the next transaction of the id gets
CONCURRENT_TRANSACTIONS (TransactionCoordinator.handleAddPartitionsToTransaction). The decision may
have become committed under the next coordinator only, which loads it.
"""

from __future__ import annotations

from kafkasim.analysis.judging.invariants.traced import coordinator_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts
from kafkasim.model.records import TRANSACTION_STATE_TOPIC


class Decisions:
    """Follows the last transaction of each transactional id."""

    def __init__(self, trace: FactSource) -> None:
        self._topics: dict[str, facts.TopicCreated] = {}
        self._open: dict[str, tuple[str, ...]] = {}  # transactional id -> partitions, if Ongoing
        self._ending: dict[str, None] = {}  # transactional ids that are open and asked to end
        self._decided: dict[str, tuple[str, ...]] = {}  # transactional id -> partitions
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TransactionState, self._on_transaction)
        trace.subscribe(facts.TransactionEnding, self._on_ending)
        trace.subscribe(facts.TransactionsLoaded, self._on_loaded)

    def of(self, transactional_id: str) -> tuple[str, ...]:
        """Return the partitions, by name, of an id's transaction if it is decided, else none."""
        return self._decided.get(transactional_id, ())

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics.setdefault(fact.topic_id, fact)

    def _on_transaction(self, _seq: int, _t: int, _n: str, fact: facts.TransactionState) -> None:
        decided = fact.state in ("PrepareCommit", "PrepareAbort")
        self._decided[fact.transactional_id] = fact.assignment if decided else ()
        self._open[fact.transactional_id] = fact.assignment if fact.state == "Ongoing" else ()
        self._ending.pop(fact.transactional_id, None)

    def _on_ending(self, _seq: int, _t: int, _n: str, fact: facts.TransactionEnding) -> None:
        if self._open.get(fact.transactional_id):
            self._ending[fact.transactional_id] = None

    def _on_loaded(self, _seq: int, _t: int, _n: str, fact: facts.TransactionsLoaded) -> None:
        """Take it that the coordinator found the decision that its predecessor wrote."""
        for each in self._ending if fact.loaded else ():
            home = coordinator_partition(TRANSACTION_STATE_TOPIC, each, self._topics)
            if home[1] == fact.partition:
                self._decided[each] = self._open[each]
