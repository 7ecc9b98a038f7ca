"""LATEST: what a log cleaner may remove; and what every replica may lack because of it.

A cleaner may remove the record at offset o if, and only if,

- a committed record of the same key stands behind it (``transactions/holes.py``), at an offset for
  which the cleaner has seen the keys (``mapped_offset``). Committed: below a high watermark that a
  leader has had, and not of an aborted transaction; or
- its own transaction was aborted, for this replica at least; or
- DeleteRecords or retention has deleted it before. A replica may even have another record there,
  that of a deposed leader: it was given no epoch to truncate by (``TracedPartition.cut``); or
- it is a tombstone, or a marker, and a cleaning that began delete.retention.ms before has met it:
  its delete horizon was set then at the latest, by this replica or by the one that it copied.
  That a tombstone goes then says HORIZON (``horizon.py``).

A replica may have missed the marker of a record: another one's cleaner had removed that marker when
this replica copied on. The next marker of the producer ends the transaction there
(ProducerAppendInfo.appendEndTxnMarker). If it commits, the replica's transaction index does not
name the record (LogSegment.updateTxnIndex), and an aborted record counts as committed. If it
aborts, the index names it, and the replica's cleaner removes a committed record as an aborted one,
also if the offset map does not reach its later one (LocalLog.collectAbortedTransactions looks for
markers behind the segments that are cleaned, too).

So the last committed value of a key stays for ever, and a deletion for at least
delete.retention.ms. Internal topics do not tell their keys: there only what follows is done.

MATCH, ISRDATA and ACKED compare what replicas were given. A follower of a cleaned log is given
less. It counts as having been given what any replica of the partition has removed, since what
LATEST permits to one it permits to all (:meth:`Cleanings.fill`).
"""

from __future__ import annotations

from bisect import bisect_right, insort
from typing import Any

from kafkasim.analysis.judging.copies.uncopied import Uncopied
from kafkasim.analysis.judging.invariants.cleaned.horizon import Horizons
from kafkasim.analysis.judging.invariants.traced import TracedCluster, TracedLog, TracedPartition
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.transactions.holes import Holes
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
    """Follows compacted partitions."""

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        self._keys: dict[PartitionKey, _Keys] = {}
        self._met: dict[PartitionKey, list[tuple[int, int, int]]] = {}
        """Base, next offset and the horizon that it sets, of each cleaning, also of a log that had
        only markers yet; in ms"""
        self._horizons = Horizons(cluster)
        self._holes: Holes | None = None
        self._topics: dict[str, None] = {}  # of users, compacted
        self._uncopied = Uncopied(cluster.trace, self._topics.__contains__)
        cluster.trace.subscribe(facts.KeysAppended, self._on_keys)
        cluster.trace.subscribe(facts.Cleaned, self._on_cleaned)

    def _on_keys(self, _seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        key = (fact.topic_id, fact.partition)
        if self._holes is None:
            self._holes = Holes(self._cluster.trace)
        known = self._keys.get(key)
        if known is None:
            known = self._keys[key] = _Keys()
            self._topics[fact.topic_id] = None
            self._uncopied.follow()
            self._cluster.partition(*key).compacted = True
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

    def _on_cleaned(self, seq: int, t: int, node: str, fact: facts.Cleaned) -> None:
        key = (fact.topic_id, fact.partition)
        state = self._cluster.partition(*key)
        replica = state.replica(node)
        known = self._keys.get(key)
        for offset in fact.removed_offsets():
            at = bisect_right(replica.nexts, offset)
            if at < len(replica.nexts):
                state.removed[offset] = (replica.nexts[at], replica.epochs[at])
            if known is not None and offset >= state.deleted:
                self._judge(state, known, seq, t, node, fact, offset)
        met = self._met.setdefault(key, [])
        if known is not None:
            self._horizons.judge(state, known.tombstones, seq, t, node, fact, met)
        horizon_ms = fact.began_ms + fact.delete_retention_ms
        met.append((fact.base_offset, fact.next_offset, horizon_ms))

    def _judge(
        self,
        state: TracedPartition,
        known: _Keys,
        seq: int,
        t: int,
        node: str,
        fact: facts.Cleaned,
        offset: int,
    ) -> None:
        assert self._holes is not None
        holes, key = self._holes, state.key
        place = (offset, holes.epoch(key, offset))
        record = known.records.get(place)
        if record is not None:
            if holes.is_aborted(key, offset) or self._takes_otherwise(key, node, offset):
                return
            end = min(fact.mapped_offset, state.exposed)
            behind = known.by_key[record[0]]
            for later, epoch in behind[bisect_right(behind, place) :]:
                stands = offset < later < end and holes.epoch(key, later) == epoch
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
        self._cluster.violated(
            "LATEST", seq, t, key,
            f"the cleaner of {node} removed offset {offset}, {what}",
            state.losses[0].reason if state.losses else "", offset,
        )  # fmt: skip

    def _takes_otherwise(self, key: PartitionKey, node: str, offset: int) -> bool:
        """Return whether a node has an aborted record as committed, or a committed one as aborted.

        It has missed the marker of that record, and has a later one of the producer.
        """
        assert self._holes is not None
        missed = self._uncopied.by(node, key)
        if offset in missed:
            return False
        decided = self._holes.decision(key, offset, missed)
        return decided is not None and decided == self._holes.is_aborted(key, offset)

    @staticmethod
    def fill(state: TracedPartition, replica: TracedLog, offset: int) -> None:
        """Give a follower the batches below ``offset`` that were removed from what it copies.

        If they were the first of their leader epoch, followers know a later start of that epoch
        (UnifiedLog.append: the base offset of the first batch that came), and as leaders let a
        replica keep its own batches of an older epoch up to that start. These count as removed.
        """
        while replica.nexts:
            _, epoch = state.removed.get(replica.nexts[-1] - 1, (-1, -1))
            if epoch <= replica.epochs[-1]:
                break
            replica.cut(replica.nexts[-2] if len(replica.nexts) > 1 else replica.start)
        at = replica.log_end_offset
        while at < offset:
            original = state.originals.get(state.removed.get(at, (-1, -1)))
            if original is None or not all(
                each in state.removed for each in range(original[0], original[1])
            ):
                return
            state.extend(replica, original)
            at = original[1]

    @staticmethod
    def original(state: TracedPartition, batch: Any) -> Any:
        """Return a batch as its leader appended it, if a replica may have got this rest of it.

        None: it has lost a record that no replica has removed, or it is not that batch.
        """
        original = state.originals.get((batch.last_offset + 1, batch.leader_epoch))
        if original is None:
            return None
        base, end, _, content = original
        stays = dict.fromkeys([base + delta for delta in batch.offset_deltas or ()])
        lost = [offset for offset in range(base, end) if offset not in stays]
        producer = (batch.producer_id, batch.producer_epoch, batch.base_sequence)
        same = base == batch.base_offset and producer == content[:3]
        return original if same and all(each in state.removed for each in lost) else None
