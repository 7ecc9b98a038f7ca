"""Transactions that an operator aborts because no coordinator lists them.

``kafka-transactions.sh find-hanging`` takes every transaction that is open for long in a partition
for hanging if no broker lists its producer id (TransactionsCommand.filterHangingTransactions). A
coordinator that loads its log answers COORDINATOR_LOAD_IN_PROGRESS, and the tool waits for it
(ListTransactionsHandler.handleResponse). A broker that is not the coordinator yet, or not any more,
lists nothing without an error. So while nobody coordinates the id, because its partition of
``__transaction_state`` has no leader or a new one has not heard of it, the tool names transactions
that the log has as decided, or whose coordinator will end them. The operator's marker aborts one
partition, and the coordinator that loads the log commits the others. The tool lists first and
aborts later, when it has found the partition's leader: nobody had to coordinate the id at some time
since it began.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

UNLISTED = "unlisted-id"
"""The excuse of what :class:`UnlistedIds` explains."""

ABORTS = "abort-hanging"
"""The operation: an operator finds hanging transactions, and aborts them."""

Place = tuple[PartitionKey, int]
"""A partition and a producer id"""


class UnlistedIds:
    """Follows abort markers that are written while no coordinator has the id.

    ``id_key(transactional id)`` is its partition of __transaction_state; ("", −1) without one.
    """

    def __init__(self, trace: FactSource, id_key: Callable[[str], PartitionKey]) -> None:
        self._id_key = id_key
        self._loaded: dict[int, dict[str, None]] = {}  # partition -> brokers that coordinate it
        self._taken_over: dict[int, int] = {}  # partition -> the last row in which nobody did
        self._began = 1 << 62  # the row in which the last search of an operator began
        self._ids: dict[int, str] = {}  # producer id -> transactional id
        self._last: dict[Place, int] = {}  # the offset of the last marker
        self._aborted: list[tuple[Place, int, int]] = []
        """Markers that nobody has answered for yet: place, offset of the one before, and its own"""
        self._operated: dict[Place, list[tuple[int, int]]] = {}  # those of an operator
        for kind, handler in (
            (facts.TransactionsLoaded, self._on_loaded),
            (facts.HostStopped, self._on_stopped),
            (facts.TransactionBegun, self._on_begun),
            (facts.MarkerWritten, self._on_marker),
            (facts.HangingSought, self._on_sought),
            (facts.Operated, self._on_operated),
        ):
            trace.subscribe(kind, handler)

    def excuse(self, producer_id: int, key: PartitionKey, offset: int) -> str:
        """Return :data:`UNLISTED` if such a marker ended what a producer has at an offset."""
        markers = self._operated.get((key, producer_id), ())
        return UNLISTED if any(low < offset < high for low, high in markers) else ""

    def _on_loaded(self, seq: int, _t: int, node: str, fact: facts.TransactionsLoaded) -> None:
        nodes = self._loaded.setdefault(fact.partition, {})
        if fact.loaded:
            if not nodes:
                self._taken_over[fact.partition] = seq
            nodes[node] = None
        else:
            nodes.pop(node, None)

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        for nodes in self._loaded.values():
            nodes.pop(node, None)

    def _on_begun(self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        self._ids[fact.producer_id] = fact.transactional_id

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        place = ((fact.topic_id, fact.partition), fact.producer_id)
        before, self._last[place] = self._last.get(place, -1), fact.offset
        if fact.committed or fact.producer_id not in self._ids:
            return
        number = self._id_key(self._ids[fact.producer_id])[1]
        if number < 0:
            return
        if not self._loaded.get(number) or self._taken_over[number] > self._began:
            self._aborted.append((place, before, fact.offset))

    def _on_sought(self, seq: int, _t: int, _node: str, _fact: facts.HangingSought) -> None:
        self._began = seq

    def _on_operated(self, _seq: int, _t: int, _node: str, fact: facts.Operated) -> None:
        if fact.operation == ABORTS:
            for place, low, high in self._aborted:
                self._operated.setdefault(place, []).append((low, high))
            self._aborted.clear()
