"""What stands at each offset of a partition: batches, markers, and what cleaners have removed.

What a reader may pass over is decided by what the leaders appended, never by the reader. A record
was aborted if the next marker of its producer behind it says so (ProducerAppendInfo
.appendEndTxnMarker). What a cleaner has removed from any replica may be missing everywhere.

Where leaders of several epochs have appended, a reader may have read either log, and a replica that
was deposed may lead again with the older one. Nothing is said of such offsets: no reader must have
got them. Final logs are told by their leaders (:meth:`Contents.states`), and leave no doubt.

The isolation level is a member's own: in an upgrade of its configuration a group has both. What a
group has missed in a partition is judged as for read_committed if any member that had the
partition reads so.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Container, Iterator, Sequence

from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

COMMITTED, ABORTED, OPEN = "committed", "aborted", "open"

Batch = tuple[int, int, int]
"""Leader epoch, producer and row of the batch at an offset"""


class _Partition:
    """What leaders have appended to one partition."""

    __slots__ = ("_content", "_end", "_ids", "_marked", "appended", "markers", "removed", "rivals")

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
        """Epoch, base, next offset, producer, row, record ids"""
        self.markers: dict[tuple[int, int], bool] = {}  # by offset and epoch: committed?
        self.removed: dict[int, int] = {}  # by offset: the row of the first cleaner's removal
        self.rivals: dict[int, None] = {}  # offsets at which several epochs appended
        self._content: dict[int, Batch] = {}  # by offset, of the highest epoch
        self._marked: dict[int, list[int]] = {}  # by producer: the offsets of its markers
        self._end = 0  # how many of ``appended`` are in the three before
        self._ids: dict[int, None] | None = None

    def content(self, offset: int) -> Batch | None:
        """Return what stands at an offset, None for no batch."""
        for epoch, base, end, producer, seq, _ in self.appended[self._end :]:
            for at in range(base, end):
                known = self._content.get(at)
                if known is not None and known[0] != epoch:
                    self.rivals[at] = None
                if known is None or known[0] <= epoch:
                    self._content[at] = (epoch, producer, seq)
            if (base, epoch) in self.markers:
                marked = self._marked.setdefault(producer, [])
                place = bisect_right(marked, base)
                if marked[place - 1 : place] != [base]:
                    marked.insert(place, base)
        self._end = len(self.appended)
        return self._content.get(offset)

    def decision(self, offset: int, missed: Container[int] = ()) -> bool | None:
        """Return whether the transaction of the record at ``offset`` was committed.

        None: no marker of its producer stands behind it, or it has no producer id. Markers at the
        offsets ``missed`` do not count.
        """
        found = self.content(offset)
        if found is None:
            return None
        epoch, producer, _ = found
        marked = self._marked.get(producer, [])
        for at in marked[bisect_right(marked, offset) :]:
            written, by, _ = self._content[at]
            committed = self.markers.get((at, written)) if by == producer else None
            if committed is not None and written >= epoch and at not in missed:
                return committed
        return None

    def in_doubt(self, offset: int) -> bool:
        """Return whether several epochs appended at an offset, or at that of a marker behind it."""
        found = self.content(offset)
        if not self.rivals or found is None:
            return False
        marked = self._marked.get(found[1], [])
        return offset in self.rivals or any(
            at in self.rivals for at in marked[bisect_right(marked, offset) :]
        )

    def is_marker(self, offset: int) -> bool:
        """Return whether a marker stands at an offset."""
        found = self.content(offset)
        return found is not None and (offset, found[0]) in self.markers

    def holds(self, offset: int, committed_only: bool, before: int) -> bool:
        """Return whether a reader must get something at an offset (:meth:`Contents.holds`)."""
        if self.removed.get(offset, before) < before or self.is_marker(offset):
            return False
        if self.in_doubt(offset):
            return False
        return not (committed_only and self.decision(offset) is False)

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


class Contents:
    """Follows one run; asked when a reader has passed over offsets, and at the end."""

    def __init__(self, trace: FactSource) -> None:
        self._partitions: dict[PartitionKey, _Partition] = {}
        self._committed_only: dict[tuple[str, str], None] = {}  # (node, group): read_committed
        self._committed_parts: dict[tuple[str, PartitionKey], None] = {}  # had such a reader
        self._record_offsets: dict[tuple[str, int, int], tuple[int, ...]] = {}
        self._transactional: dict[int, None] = {}  # producer ids
        self.leaders: dict[PartitionKey, facts.FinalReplica] = {}
        """The leaders' logs at the end of a run. Of two that believe to lead, the one of the higher
        epoch does"""
        follow(trace, self)

    # Following.

    def _partition(self, topic_id: str, partition: int) -> _Partition:
        state = self._partitions.get((topic_id, partition))
        if state is None:
            state = self._partitions[topic_id, partition] = _Partition()
        return state

    def on_Appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        """Take a batch."""
        batch = (fact.leader_epoch, fact.base_offset, fact.next_offset, fact.producer_id, seq,
                 fact.record_ids)  # fmt: skip
        self._partition(fact.topic_id, fact.partition).appended.append(batch)

    def on_MarkerWritten(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        """Take a marker; its batch is told in the row before."""
        markers = self._partition(fact.topic_id, fact.partition).markers
        markers[fact.offset, fact.leader_epoch] = fact.committed
        self._transactional[fact.producer_id] = None

    def on_Cleaned(self, seq: int, _t: int, _node: str, fact: facts.Cleaned) -> None:
        """Take what a cleaner has removed."""
        removed = self._partition(fact.topic_id, fact.partition).removed
        for offset in fact.removed_offsets():
            removed.setdefault(offset, seq)

    def on_TransactionBegun(self, _s: int, _t: int, _n: str, fact: facts.TransactionBegun) -> None:
        """Take a transactional producer."""
        self._transactional[fact.producer_id] = None

    def on_ReadsCommitted(self, _seq: int, _t: int, node: str, fact: facts.ReadsCommitted) -> None:
        """Take a reader of committed records."""
        self._committed_only[node, fact.group] = None

    def on_Positioned(self, _seq: int, _t: int, node: str, fact: facts.Positioned) -> None:
        """Take the partitions of such readers."""
        if fact.reason != "none" and (node, fact.group) in self._committed_only:
            self._committed_parts[fact.group, (fact.topic_id, fact.partition)] = None

    def on_FinalCleaned(self, _seq: int, _t: int, _node: str, fact: facts.FinalCleaned) -> None:
        """Take the offsets of the records of a leader's cleaned log."""
        if fact.leading:
            place = (fact.topic_id, fact.partition, fact.leader_epoch)
            self._record_offsets[place] = fact.record_offsets

    def on_FinalReplica(self, _seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        """Take a leader's log."""
        known = self.leaders.get((fact.topic_id, fact.partition))
        if fact.leading and (known is None or fact.leader_epoch > known.leader_epoch):
            self.leaders[fact.topic_id, fact.partition] = fact

    # Readers.

    def reads_committed(self, node: str, group: str) -> bool:
        """Return whether a member of a group reads committed records only."""
        return (node, group) in self._committed_only

    def was_read_committed(self, group: str, key: PartitionKey) -> bool:
        """Return whether a member that had the partition reads committed records only."""
        return (group, key) in self._committed_parts

    def holds(
        self, key: PartitionKey, offset: int, committed_only: bool, before: int = 1 << 62
    ) -> bool:
        """Return whether an offset has a record that a reader must get.

        What a cleaner has removed from any replica before the row ``before`` is no record. An
        offset at which nothing is known to stand has one: only the log excuses a reader.
        """
        return not self._has_gaps(key) or self._partitions[key].holds(
            offset, committed_only, before
        )

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
        missed = (at for at in range(low, high) if self.holds(key, at, committed_only))
        return next(missed, None)

    # Offsets.

    def epoch(self, key: PartitionKey, offset: int) -> int:
        """Return the leader epoch of the batch that stands at an offset.

        −1 for no batch, and where leaders of several epochs have appended.
        """
        state = self._partitions.get(key)
        found = None if state is None else state.content(offset)
        return -1 if found is None or state is None or offset in state.rivals else found[0]

    def appended(self, key: PartitionKey, offset: int) -> int:
        """Return the row in which what stands at an offset was appended; −1 without gaps."""
        found = self._partitions[key].content(offset) if self._has_gaps(key) else None
        return -1 if found is None else found[2]

    def is_aborted(self, key: PartitionKey, offset: int) -> bool:
        """Return whether the record at an offset belongs to an aborted transaction."""
        return self.decision(key, offset) is False

    def decision(self, key: PartitionKey, offset: int, missed: Container[int] = ()) -> bool | None:
        """Return whether a record counts as committed where the markers at ``missed`` are not;
        None: no marker ends its transaction there."""
        state = self._partitions.get(key)
        return state.decision(offset, missed) if state is not None and state.markers else None

    def is_marker(self, key: PartitionKey, offset: int) -> bool:
        """Return whether a marker stands at an offset."""
        state = self._partitions.get(key)
        return state is not None and bool(state.markers) and state.is_marker(offset)

    def was_removed(self, key: PartitionKey, record_id: int) -> bool:
        """Return whether a cleaner has removed a record."""
        state = self._partitions.get(key)
        return state is not None and bool(state.removed) and state.was_removed(record_id)

    def was_removed_at(self, key: PartitionKey, offset: int) -> bool:
        """Return whether a cleaner has removed what stood at an offset."""
        state = self._partitions.get(key)
        return state is not None and offset in state.removed

    def _has_gaps(self, key: PartitionKey) -> bool:
        """Return whether a partition has offsets that readers may pass over."""
        state = self._partitions.get(key)
        return state is not None and bool(state.markers or state.removed)

    # Final logs.

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

    def states(self, key: PartitionKey) -> Iterator[tuple[int, int, str]]:
        """Yield (offset, record id, state) of the records in a final leader's log.

        The state is committed for a record without a transaction, too.
        """
        leader = self.leaders[key]
        state = self._partitions.get(key)
        markers = {} if state is None else state.markers
        offsets = self.record_offsets(leader)
        undecided: dict[int, list[tuple[int, int]]] = {}
        position = 0
        columns = zip(
            leader.base_offsets, leader.batch_epochs, leader.producer_ids, leader.record_counts
        )
        for base, epoch, producer_id, count in columns:
            until = position + count
            records = [*zip(offsets[position:until], leader.record_ids[position:until])]
            position = until
            committed = None if count else markers.get((base, epoch))
            if committed is not None:
                for record in undecided.pop(producer_id, ()):
                    yield *record, COMMITTED if committed else ABORTED
            elif producer_id in self._transactional:
                undecided.setdefault(producer_id, []).extend(records)
            else:
                for record in records:
                    yield *record, COMMITTED
        for found in undecided.values():
            for record in found:
                yield *record, OPEN
