"""Transactions in a replica that has missed their marker.

LogCleaner removes a marker delete.retention.ms after its records, replica by replica, or empties
its batch. A replica that was away meanwhile copies only later batches. So the transaction stays
open there, until the next marker of the producer ends it (ProducerAppendInfo.appendEndTxnMarker).
The replica is in sync, so it may lead.

- If the next marker commits, the transaction index does not name an aborted record
  (LogSegment.updateTxnIndex), and readers of committed records get it.
- If there is no next marker, they wait at the last stable offset. If the transaction has the
  offsets of a group, the replica's coordinator has loaded them as pending (GroupMetadataManager,
  and since 4.0 OffsetMetadataManager.replay), and OffsetFetch answers UNSTABLE_OFFSET_COMMIT.
"""

from __future__ import annotations

from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.history.uncopied import Uncopied
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

MISSED_MARKER = "missed-marker"
"""The excuse of what :class:`MissedMarkers` explains."""


class MissedMarkers:
    """Follows the compacted topics of users, from the first transaction on."""

    def __init__(self, trace: FactSource, holes: Contents) -> None:
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
            offset not in missed and self._holes.decision(key, offset, missed) is True
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
