"""Aborted records that a replica has as committed, because it has missed their marker.

LogCleaner removes an abort marker delete.retention.ms after its records, replica by replica. One
that was away meanwhile copies on behind it, and its transaction stays open there: the next marker
of the producer ends it (ProducerAppendInfo.appendEndTxnMarker). If that one commits, the
transaction index does not name the record (LogSegment.updateTxnIndex). The replica is in sync, so
it may lead, and its readers of committed records get the record.
"""

from __future__ import annotations

from kafkasim.model import facts
from kafkasim.scenarios.judging.copies.uncopied import Uncopied
from kafkasim.scenarios.judging.source import FactSource, PartitionKey
from kafkasim.scenarios.judging.transactions.holes import Holes

MISSED_MARKER = "missed-marker"
"""The excuse of what :class:`MissedMarkers` explains."""


class MissedMarkers:
    """Follows the compacted topics of users, from the first transaction on."""

    def __init__(self, trace: FactSource, holes: Holes) -> None:
        self._trace = trace
        self._holes = holes
        self._topics: dict[str, None] = {}
        self._follows = False
        self._uncopied = Uncopied(trace, self._topics.__contains__)
        trace.subscribe(facts.TransactionBegun, self._on_begun)

    def excuse(self, key: PartitionKey, offset: int) -> str:
        """Return :data:`MISSED_MARKER` if a replica has an aborted record as committed by now."""
        if key[0] not in self._topics or not self._holes.is_aborted(key, offset):
            return ""
        found = any(
            offset not in missed and self._holes.is_committed_without(key, offset, missed)
            for missed in self._uncopied.of(key)
        )
        return MISSED_MARKER if found else ""

    def _on_begun(self, _seq: int, _t: int, _node: str, _fact: facts.TransactionBegun) -> None:
        if not self._follows:
            self._follows = True
            self._trace.subscribe(facts.KeysAppended, self._on_keys)

    def _on_keys(self, _seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        if fact.topic_id not in self._topics:
            self._topics[fact.topic_id] = None
            self._uncopied.follow()
