"""LATEST and HORIZON: what a log cleaner may remove, and what it must.

MATCH, ISRDATA and ACKED compare what replicas were given. A follower of a cleaned log is given
less. It counts as having been given what any replica of the partition has removed, since what
LATEST permits to one it permits to all (``history/logs.py:PartitionHistory.fill``).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.logs import PartitionHistory
from kafkasim.analysis.judging.history.uncopied import Uncopied
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


class _Keys:
    """What leaders have appended to one compacted partition of users."""

    __slots__ = ("by_key", "records", "tombstones")

    def __init__(self) -> None:
        self.records: dict[tuple[int, int], tuple[str, bool]] = {}
        """By offset and leader epoch: key, tombstone?"""
        self.tombstones: list[tuple[int, int]] = []  # offsets and leader epochs, ascending
        self.by_key: dict[str, list[tuple[int, int]]] = {}  # offsets and leader epochs, ascending


class Cleanings:
    """LATEST: what a log cleaner may remove; and what every replica may lack because of it.

    A cleaner may remove the record at offset o if, and only if,

    - a committed record of the same key stands behind it (``history/contents.py``), at an offset
      for which the cleaner has seen the keys (``mapped_offset``). Committed: below a high watermark
      that a leader has had, and not of an aborted transaction; or
    - its own transaction was aborted, for this replica at least; or
    - DeleteRecords or retention has deleted it before. A replica may even have another record
      there, that of a deposed leader: it was given no epoch to truncate by
      (``PartitionHistory.cut``); or
    - it is a tombstone, or a marker, and a cleaning that began delete.retention.ms before has met
      it: its delete horizon was set then at the latest, by this replica or by the one that it
      copied. That a tombstone goes then says HORIZON.

    A replica may have missed the marker of a record: another one's cleaner had removed that marker
    when this replica copied on. The next marker of the producer ends the transaction there
    (ProducerAppendInfo.appendEndTxnMarker). If it commits, the replica's transaction index does not
    name the record (LogSegment.updateTxnIndex), and an aborted record counts as committed. If it
    aborts, the index names it, and the replica's cleaner removes a committed record as an aborted
    one, also if the offset map does not reach its later one (LocalLog.collectAbortedTransactions
    looks for markers behind the segments that are cleaned, too).

    So the last committed value of a key stays for ever, and a deletion for at least
    delete.retention.ms. Internal topics do not tell their keys: there only what follows is done.
    """

    def __init__(self, history: History, findings: Findings, trace: FactSource) -> None:
        self._history = history
        self._findings = findings
        self._keys: dict[PartitionKey, _Keys] = {}
        self._met: dict[PartitionKey, list[tuple[int, int, int]]] = {}
        """Base, next offset and the horizon that it sets, of each cleaning, also of a log that had
        only markers yet; in ms"""
        self._horizons = Horizons(findings, trace)
        self._holes = history.contents
        self._topics: dict[str, None] = {}  # of users, compacted
        self._uncopied = Uncopied(trace, self._topics.__contains__)

    def on_KeysAppended(self, _seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        """Note the keys that a leader appends."""
        key = (fact.topic_id, fact.partition)
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = _Keys()
            self._topics[fact.topic_id] = None
            self._uncopied.follow()
        for offset, name in enumerate(fact.keys, fact.base_offset):
            place = (offset, fact.leader_epoch)
            before = known.records.get(place)
            if before is not None:
                known.by_key[before[0]].remove(place)
                if before[1]:
                    known.tombstones.remove(place)
            known.records[place] = (name, offset in fact.tombstones)
            if offset in fact.tombstones:
                insort(known.tombstones, place)
            insort(known.by_key.setdefault(name, []), place)

    def on_Cleaned(self, seq: int, t: int, node: str, fact: facts.Cleaned) -> None:
        """Judge what a cleaner has removed and kept."""
        key = (fact.topic_id, fact.partition)
        state = self._history.partition(*key)
        known = self._keys.get(key)
        met = self._met.setdefault(key, [])
        if known is not None:
            for offset in fact.removed_offsets():
                if offset >= state.deleted:
                    self._judge(state, known, seq, t, node, fact, offset)
            self._horizons.judge(state, known.tombstones, seq, t, node, fact, met)
        horizon_ms = fact.began_ms + fact.delete_retention_ms
        met.append((fact.base_offset, fact.next_offset, horizon_ms))

    def _judge(
        self,
        state: PartitionHistory,
        known: _Keys,
        seq: int,
        t: int,
        node: str,
        fact: facts.Cleaned,
        offset: int,
    ) -> None:
        holes, key = self._holes, state.key
        place = (offset, holes.epoch(key, offset))
        if place[1] < 0:
            return  # leaders of several epochs have appended there: either may stand
        record = known.records.get(place)
        if record is not None:
            if holes.is_aborted(key, offset) or self._takes_otherwise(key, node, offset):
                return
            end = min(fact.mapped_offset, state.exposed)
            behind = known.by_key[record[0]]
            for later, epoch in behind[bisect_right(behind, place) :]:
                stands = offset < later < end and holes.epoch(key, later) in (epoch, -1)
                aborted = stands and holes.is_aborted(key, later)
                if stands and (not aborted or self._takes_otherwise(key, node, later)):
                    return
        elif not holes.is_marker(key, offset):
            return  # of a time before the topic was compacted
        lasting = record is not None and not record[1]
        met = [horizon for base, end, horizon in self._met.get(key, ()) if base <= offset < end]
        if not lasting and met and min(met) <= fact.began_ms:
            return
        if record is None:
            what = "the marker of a transaction before its delete horizon"
        elif lasting:
            what = f"the last committed record of {record[0]}"
        else:
            what = f"the deletion of {record[0]} before its delete horizon"
        self._findings.add(
            "LATEST", seq, t, key,
            f"the cleaner of {node} removed offset {offset}, {what}",
            state.losses[0].reason if state.losses else "", offset,
        )  # fmt: skip

    def _takes_otherwise(self, key: PartitionKey, node: str, offset: int) -> bool:
        """Return whether a node has an aborted record as committed, or a committed one as aborted.

        It has missed the marker of that record, and has a later one of the producer.
        """
        missed = self._uncopied.by(node, key)
        if offset in missed:
            return False
        decided = self._holes.decision(key, offset, missed)
        return decided is not None and decided == self._holes.is_aborted(key, offset)


class Horizons:
    """HORIZON: a tombstone is removed by the first cleaning that may do so (KAFKA-8522, B89).

    The first cleaning of a replica that meets a tombstone gives its batch a delete horizon, if the
    batch has none yet: the begin of the cleaning and delete.retention.ms. The horizon is in the
    batch and never moves (KIP-534). So a later cleaning of that replica removes the tombstone if it
    began at that time or later and has seen the keys up to there (``mapped_offset``). A batch that
    was copied may have a horizon already: that of an earlier cleaning elsewhere, by another clock
    or with another delete.retention.ms. So the bound is the latest horizon that any cleaning up to
    this replica's first one could give. Nothing is added to it: a replica's rule and the judge use
    the same clock, and a clock that is set moves both.

    What a replica has met is forgotten when it appends at or below that offset, because the batch
    that it has then may be another copy; and when it loads its log, because a power loss may undo
    the swap of a cleaned segment. A replica may have got a tombstone's batch without it once any
    cleaner has removed it, so that one is not judged any more.

    Left out: markers. They may go once no batch of their transaction is left, and no fact tells of
    the headers that stay.
    """

    def __init__(self, findings: Findings, trace: FactSource) -> None:
        self._findings = findings
        self._trace = trace
        self._met: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """By replica and offset of a tombstone: its delete horizon at the latest, in ms"""
        self._removed: dict[PartitionKey, dict[int, None]] = {}  # offsets, by any cleaner
        self._ends: dict[tuple[str, PartitionKey], int] = {}  # behind the last of these offsets

    def judge(
        self,
        state: PartitionHistory,
        tombstones: list[tuple[int, int]],
        seq: int,
        t: int,
        node: str,
        fact: facts.Cleaned,
        earlier: list[tuple[int, int, int]],
    ) -> None:
        """Judge a cleaning.

        ``tombstones`` are those of the partition, as ascending offsets and leader epochs; of
        ``earlier`` cleanings it has base, next offset and the horizon that they set, in ms.
        """
        if not self._met:
            trace = self._trace
            trace.subscribe(facts.Appended, self._on_appended)
            trace.subscribe(facts.Replicated, self._on_appended)
            trace.subscribe(facts.LogLoaded, self._on_loaded)
        replica = (node, state.key)
        log = state.replica(node)
        met = self._met.setdefault(replica, {})
        removed = self._removed.setdefault(state.key, {})
        removed |= dict.fromkeys(fact.removed_offsets())
        horizon_ms = fact.began_ms + fact.delete_retention_ms
        for offset, epoch in tombstones[bisect_left(tombstones, (fact.base_offset, -1)) :]:
            if offset >= fact.next_offset:
                break
            place = log.place(offset)
            if offset in removed or place is None or place[1] != epoch:
                met.pop(offset, None)
                continue
            known_ms = met.get(offset)
            if known_ms is None:
                met[offset] = max(
                    [horizon_ms, *[ms for low, high, ms in earlier if low <= offset < high]]
                )
            self._ends[replica] = max(self._ends.get(replica, 0), offset + 1)
            if known_ms is not None and known_ms <= fact.began_ms and offset < fact.mapped_offset:
                self._findings.add(
                    "HORIZON", seq, t, state.key,
                    f"the cleaner of {node} kept the deletion at offset {offset}"
                    f" {fact.began_ms - known_ms} ms after its delete horizon",
                    offset=offset,
                )  # fmt: skip

    def _on_appended(
        self, _seq: int, _t: int, node: str, fact: facts.Appended | facts.Replicated
    ) -> None:
        replica = (node, (fact.topic_id, fact.partition))
        if fact.base_offset < self._ends.get(replica, 0):
            met = self._met[replica]
            self._met[replica] = {at: ms for at, ms in met.items() if at < fact.base_offset}
            self._ends[replica] = fact.base_offset

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        replica = (node, (fact.topic_id, fact.partition))
        if replica in self._met:
            self._met[replica] = {}
