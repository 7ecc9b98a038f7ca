"""STABLEREAD: what consumers read has been committed, and stays what it is."""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.model import facts
from kafkasim.model.facts.names import record


class StableReads:
    """STABLEREAD: consumers read below the high watermark, and each offset is one record for ever.

    A fetch of a consumer is limited by the high watermark of the replica that answers it
    (UnifiedLog.read, FetchIsolation); what a legal loss has cost may be another record later.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        self._read: dict[tuple[str, int], dict[int, int]] = {}  # partition -> offset -> record id

    def on_Polled(self, seq: int, t: int, node: str, fact: facts.Polled) -> None:
        """Compare with what others have read, and with what leaders have exposed."""
        key = (fact.topic_id, fact.partition)
        read = self._read.get(key)
        if read is None:
            read = self._read[key] = {}
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            known = read.setdefault(offset, record_id)
            if known != record_id:
                read[offset] = record_id
                lost = self._history.partition(*key).lost(offset)
                self._findings.add(
                    "STABLEREAD", seq, t, key,
                    f"{node} read {record(record_id)} at offset {offset}, where another read gave"
                    f" {record(known)}", lost,
                )  # fmt: skip
        if fact.offsets:
            state, last = self._history.partition(*key), fact.offsets[-1]
            exposed = state.exposed
            if last >= exposed:
                self._findings.add(
                    "STABLEREAD", seq, t, key,
                    f"{node} read offset {last}, not below the high watermark"
                    f" {exposed}", state.lost(last),
                )  # fmt: skip
