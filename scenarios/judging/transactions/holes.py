"""Offsets that hold nothing for a reader: markers, aborted records, and what was cleaned away.

What a reader may pass over is decided by what the leaders appended, never by the reader:
:class:`Holes` keeps which producer's batch stands at each offset and which offsets hold markers.
Of two batches at one offset the one of the higher leader epoch counts: the other was truncated. A
record was aborted if the next marker of its producer behind it says so. Leader epochs never fall
along a log, so a marker of an earlier epoch than the record's was truncated before. What a
truncation has left empty keeps its old content: readers passed over it while it stood there. A
reader of read_uncommitted gets aborted records like all others.

The isolation level is a member's own: in an upgrade of its configuration a group has both. What a
member passes over is judged by its level. What a whole group has missed in a partition is judged as
for read_committed if any member that had the partition reads so, because it may have been there.

What any replica's cleaner has removed holds nothing either, from then on, whichever replica is
read: LATEST says that it may be missing everywhere (``judging/invariants/cleaned/latest.py``).

The Spark checks rebuild the same in the views ``contents``, ``committed_only`` and
``committed_parts``.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

from kafkasim.model import facts
from kafkasim.scenarios.judging.source import FactSource, PartitionKey


class _Partition:
    """What leaders have appended to one partition."""

    __slots__ = ("_content", "_ids", "_markers", "_read", "appended", "keyed", "markers", "removed")

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
        """Epoch, base, next offset, producer, row; of a compacted topic the record ids, too"""
        self.keyed = False  # whether its topic is compacted
        self.removed: dict[int, int] = {}  # by offset: the row of the first cleaner's removal
        self._ids: dict[int, None] | None = None
        self.markers: dict[tuple[int, int], bool] = {}  # by offset and epoch: committed?
        self._read = 0  # how many of ``appended`` are in the two below
        self._content: dict[int, tuple[int, int, int]] = {}  # by offset: epoch, producer, row
        self._markers: dict[int, list[int]] = {}  # by producer: the offsets of its markers

    def content(self, offset: int) -> tuple[int, int, int] | None:
        """Return leader epoch, producer and row of the batch at an offset, None for no batch."""
        self._catch_up()
        return self._content.get(offset)

    def decision(self, offset: int) -> bool | None:
        """Return whether the transaction of the record at ``offset`` was committed.

        None: no marker of its producer stands behind it, or it has no producer id.
        """
        found = self.content(offset)
        if found is None:
            return None
        epoch, producer, _ = found
        markers = self._markers.get(producer, [])
        for index in range(bisect_right(markers, offset), len(markers)):
            at = markers[index]
            written, by, _ = self._content[at]
            committed = self.markers.get((at, written)) if by == producer else None
            if committed is not None and written >= epoch:
                return committed
        return None

    def is_marker(self, offset: int) -> bool:
        """Return whether a marker stands at an offset."""
        found = self.content(offset)
        return found is not None and (offset, found[0]) in self.markers

    def was_removed(self, record_id: int) -> bool:
        """Return whether a cleaner has removed a record; asked at the end of a run."""
        if self._ids is None:
            self._ids = {
                each: None
                for _, base, _, _, _, ids in self.appended
                for offset, each in enumerate(ids, base)
                if offset in self.removed
            }
        return record_id in self._ids

    def _catch_up(self) -> None:
        content = self._content
        for epoch, base, end, producer, seq, _ in self.appended[self._read :]:
            for offset in range(base, end):
                known = content.get(offset)
                if known is None or known[0] <= epoch:
                    content[offset] = (epoch, producer, seq)
            if (base, epoch) in self.markers and content[base] == (epoch, producer, seq):
                markers = self._markers.setdefault(producer, [])
                index = bisect_right(markers, base)
                if markers[index - 1 : index] != [base]:
                    markers.insert(index, base)
        self._read = len(self.appended)


class Holes:
    """Follows one run; asked when a reader has passed over offsets, and at the end."""

    def __init__(self, trace: FactSource) -> None:
        self._partitions: dict[PartitionKey, _Partition] = {}
        self._committed_only: dict[tuple[str, str], None] = {}  # (node, group): read_committed
        self._committed_parts: dict[tuple[str, PartitionKey], None] = {}  # had such a reader
        self._record_offsets: dict[tuple[str, int, int], tuple[int, ...]] = {}
        self._trace = trace
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.MarkerWritten, self._on_marker)
        trace.subscribe(facts.ReadsCommitted, self._on_isolation)
        trace.subscribe(facts.KeysAppended, self._on_keys)
        trace.subscribe(facts.Cleaned, self._on_cleaned)
        trace.subscribe(facts.FinalCleaned, self._on_final_cleaned)

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        key = (fact.topic_id, fact.partition)
        state = self._partitions.get(key)
        if state is None:
            state = self._partitions[key] = _Partition()
        ids = fact.record_ids if state.keyed else ()
        epoch, base, end = fact.leader_epoch, fact.base_offset, fact.next_offset
        state.appended.append((epoch, base, end, fact.producer_id, seq, ids))

    def _on_keys(self, _seq: int, _t: int, _node: str, fact: facts.KeysAppended) -> None:
        """Remember the record ids of compacted partitions."""
        self._partitions.setdefault((fact.topic_id, fact.partition), _Partition()).keyed = True

    def _on_cleaned(self, seq: int, _t: int, _node: str, fact: facts.Cleaned) -> None:
        removed = self._partitions[(fact.topic_id, fact.partition)].removed
        for offset in fact.removed_offsets():
            removed.setdefault(offset, seq)

    def _on_final_cleaned(self, _seq: int, _t: int, _node: str, fact: facts.FinalCleaned) -> None:
        if fact.leading:
            place = (fact.topic_id, fact.partition, fact.leader_epoch)
            self._record_offsets[place] = fact.record_offsets

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        state = self._partitions[(fact.topic_id, fact.partition)]
        state.markers[(fact.offset, fact.leader_epoch)] = fact.committed

    def _on_isolation(self, _seq: int, _t: int, node: str, fact: facts.ReadsCommitted) -> None:
        """Follow positions from the first reader of committed records on."""
        if not self._committed_only:
            self._trace.subscribe(facts.Positioned, self._on_positioned)
        self._committed_only[node, fact.group] = None

    def _on_positioned(self, _seq: int, _t: int, node: str, fact: facts.Positioned) -> None:
        if fact.reason != "none" and (node, fact.group) in self._committed_only:
            self._committed_parts[fact.group, (fact.topic_id, fact.partition)] = None

    def reads_committed(self, node: str, group: str) -> bool:
        """Return whether a member of a group reads committed records only."""
        return (node, group) in self._committed_only

    def was_read_committed(self, group: str, key: PartitionKey) -> bool:
        """Return whether a member that had the partition reads committed records only."""
        return (group, key) in self._committed_parts

    def has_markers(self, key: PartitionKey) -> bool:
        """Return whether a transaction has ended in a partition."""
        state = self._partitions.get(key)
        return state is not None and bool(state.markers)

    def has_holes(self, key: PartitionKey) -> bool:
        """Return whether a partition has offsets that readers may pass over."""
        state = self._partitions.get(key)
        return state is not None and bool(state.markers or state.removed)

    def was_removed(self, key: PartitionKey, record_id: int) -> bool:
        """Return whether a cleaner has removed a record."""
        state = self._partitions.get(key)
        return state is not None and bool(state.removed) and state.was_removed(record_id)

    def was_removed_at(self, key: PartitionKey, offset: int) -> bool:
        """Return whether a cleaner has removed what stood at an offset."""
        state = self._partitions.get(key)
        return state is not None and offset in state.removed

    def record_offsets(self, leader: facts.FinalReplica) -> Sequence[int]:
        """Return the offsets of all records of a leader's final log."""
        place = (leader.topic_id, leader.partition, leader.leader_epoch)
        known = self._record_offsets.get(place)
        if known is not None:
            return known
        return [
            offset
            for base, count in zip(leader.base_offsets, leader.record_counts)
            for offset in range(base, base + count)
        ]

    def appended(self, key: PartitionKey, offset: int) -> int:
        """Return the row in which what stands at an offset was appended; −1 without holes.

        Where there are none readers pass over nothing, and nobody asks.
        """
        found = self._partitions[key].content(offset) if self.has_holes(key) else None
        return -1 if found is None else found[2]

    def is_aborted(self, key: PartitionKey, offset: int) -> bool:
        """Return whether the record at an offset belongs to an aborted transaction."""
        return self.has_markers(key) and self._partitions[key].decision(offset) is False

    def is_marker(self, key: PartitionKey, offset: int) -> bool:
        """Return whether a marker stands at an offset."""
        return self.has_markers(key) and self._partitions[key].is_marker(offset)

    def holds(
        self, key: PartitionKey, offset: int, committed_only: bool, before: int = 1 << 62
    ) -> bool:
        """Return whether an offset has a record that a reader must get.

        What a cleaner has removed from any replica before the row ``before`` is no record. An
        offset at which nothing is known to stand has one: only the log excuses a reader.
        """
        if not self.has_holes(key):
            return True
        if self._partitions[key].removed.get(offset, before) < before:
            return False
        if self._partitions[key].is_marker(offset):
            return False
        return not (committed_only and self.is_aborted(key, offset))

    def readable(
        self, key: PartitionKey, leader: facts.FinalReplica, offset: int, group: str
    ) -> bool:
        """Return whether a group may read the record at an offset of the final log."""
        committed_only = self.was_read_committed(group, key)
        if committed_only and offset >= leader.last_stable_offset:
            return False
        return self.holds(key, offset, committed_only)

    def first_missed(
        self, key: PartitionKey, low: int, high: int, committed_only: bool
    ) -> int | None:
        """Return the first offset in [``low``, ``high``) with a record for a reader, or None."""
        if not self.has_holes(key):
            return low
        return next(
            (each for each in range(low, high) if self.holds(key, each, committed_only)), None
        )
