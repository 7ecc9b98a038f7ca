"""reordered-key: are the records of each key in the order in which their producer sent them?

All records of a key are in one partition, so a consumer gets them in the order of the log. This is
the order of the sends if no batch overtakes an earlier one: with one request in flight, or with an
idempotent producer, whose sequences the leader checks. Otherwise the batches of one connection fail
together and may be sent again in another order.

Kafka promises no order between two starts of a producer. Copies of a record are another anomaly
(duplicate); here the first copy counts.
"""

from __future__ import annotations

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, final_leaders
from kafkasim.model import facts


class KeyOrder:
    """Follows one run; :meth:`finish` returns an anomaly for each partition.

    Only workloads with ``key-order`` tell their keys. Nothing excuses the anomaly: a scenario
    permits it, because its producer is configured so.
    """

    def __init__(self, trace: FactSource, holes: Contents) -> None:
        self._holes = holes
        self._keys: dict[int, tuple[int, str]] = {}  # record id -> (first of its producer, key)
        self._leaders = final_leaders(trace)
        trace.subscribe(facts.KeySent, self._on_sent)

    def _on_sent(self, _seq: int, _t: int, _node: str, fact: facts.KeySent) -> None:
        self._keys[fact.record_id] = (fact.since, fact.key)

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition."""
        if not self._keys:
            return []
        found = []
        for partition, leader in sorted(self._leaders.items()):
            overtaken = self._overtaken(partition, leader)
            if overtaken:
                offset, record_id, last = overtaken[0]
                key = self._keys[record_id][1]
                detail = f"record {record_id} of {key} at offset {offset} is behind record {last}"
                found.append(
                    Finding("reordered-key", *partition, detail, len(overtaken), offset=offset,
                            record_id=record_id)
                )  # fmt: skip
        return found

    def _overtaken(
        self, partition: PartitionKey, leader: facts.FinalReplica
    ) -> list[tuple[int, int, int]]:
        """Return (offset, record id, later record before it) of the records out of order."""
        last: dict[tuple[int, str], int] = {}
        seen: dict[int, None] = {}
        overtaken = []
        for record_id, offset in zip(leader.record_ids, self._holes.record_offsets(leader)):
            sent = self._keys.get(record_id)
            if sent is None or record_id in seen or offset < leader.log_start_offset:
                continue
            if self._holes.is_aborted(partition, offset):
                continue
            seen[record_id] = None
            before = last.get(sent, -1)
            if record_id < before:
                overtaken.append((offset, record_id, before))
            last[sent] = max(before, record_id)
        return overtaken
