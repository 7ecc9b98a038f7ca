"""Offsets that hold nothing for a reader: markers, aborted records, and what was cleaned away.

What a reader may pass over is decided by what the leaders appended, never by the reader:
:class:`Holes` keeps which producer's batch stands at each offset and which offsets hold markers.
Of two batches at one offset the one of the higher leader epoch counts: the other was truncated.
Unless a later leader has the older one: a replica that was deposed, and is elected again before it
has fetched from the leader in between, has truncated nothing (AbstractFetcherThread truncates by
what the leader answers). Then that leader's batches are truncated instead. Which batches a new
leader has is what the trace tells of its own log, by leader epochs as in LeaderEpochFileCache. A
record was aborted if the next marker of its producer behind it says so. Leader epochs never fall
along a log, so a marker of an earlier epoch than the record's was truncated before. What a
truncation has left empty keeps its old content: readers passed over it while it stood there. A
reader of read_uncommitted gets aborted records like all others.

The isolation level is a member's own: in an upgrade of its configuration a group has both. What a
member passes over is judged by its level. What a whole group has missed in a partition is judged as
for read_committed if any member that had the partition reads so, because it may have been there.

A member that hands out a record which another one has replaced since had fetched it before: what it
passes over is judged by the log as it was before that record was cut off.

What any replica's cleaner has removed holds nothing either, from then on, whichever replica is
read: LATEST says that it may be missing everywhere (``judging/invariants/cleaned/latest.py``).

The Spark checks rebuild the same in the views ``contents``, ``committed_only`` and
``committed_parts``.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Container, Sequence

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Runs = Sequence[tuple[int, int]]
"""The leader epochs of a log, as LeaderEpochFileCache keeps them: (first offset, epoch), rising"""

PartitionFact = facts.Appended | facts.KeysAppended | facts.MarkerWritten | facts.Cleaned

Content = tuple[int, int, int]
"""Leader epoch, producer and row of the batch at an offset"""


def _epoch_at(runs: Runs, offset: int) -> int:
    """Return the leader epoch of what a log has at an offset, −1 if nobody told."""
    at = bisect_right(runs, offset, key=lambda run: run[0])
    return runs[at - 1][1] if at else -1


class _Partition:
    """What leaders have appended to one partition."""

    __slots__ = (
        "_content", "_counted", "_ids", "_markers", "_past", "_read", "_rivals", "appended",
        "cuts", "elections", "markers", "removed", "runs",
    )  # fmt: skip

    def __init__(self) -> None:
        self.appended: list[tuple[int, int, int, int, int, tuple[int, ...]]] = []
        """Epoch, base, next offset, producer, row, record ids"""
        self.cuts: list[tuple[int, int, int]] = []
        """Row, base offset and epoch of the batches that stand below the end of the batch before
        them: a leader had truncated what was there, or has not what another one wrote"""
        self._past: dict[int, _Partition] = {}  # by row: as it was before it
        self.removed: dict[int, int] = {}  # by offset: the row of the first cleaner's removal
        self._ids: dict[int, None] | None = None
        self.markers: dict[tuple[int, int], bool] = {}  # by offset and epoch: committed?
        self.runs: dict[str, list[tuple[int, int]]] = {}  # by node: the epochs of its log
        self.elections: list[tuple[int, int, int, Runs]] = []
        """How many batches had been appended, leader epoch, log end and epochs of a new leader"""
        self._read = 0  # how many of ``appended`` are in the three below
        self._counted = 0  # how many of ``elections`` are
        self._content: dict[int, Content] = {}  # by offset
        self._rivals: dict[int, list[Content]] = {}  # by offset, where several epochs appended
        self._markers: dict[int, list[int]] = {}  # by producer: the offsets of its markers

    def append(self, fact: facts.Appended, seq: int) -> None:
        """Note a batch of a leader."""
        base = fact.base_offset
        if self.appended and base < self.appended[-1][2]:
            self.cuts.append((seq, base, fact.leader_epoch))
        end, producer = fact.next_offset, fact.producer_id
        self.appended.append((fact.leader_epoch, base, end, producer, seq, fact.record_ids))

    def extend(self, node: str, base: int, epoch: int) -> None:
        """Note that the log of a node goes on at an offset with batches of a leader epoch."""
        runs = self.runs.setdefault(node, [])
        if runs and runs[-1][1] == epoch and runs[-1][0] <= base:
            return
        while runs and runs[-1][0] >= base:
            runs.pop()
        if not runs or runs[-1][1] != epoch:
            runs.append((base, epoch))

    def content(self, offset: int) -> Content | None:
        """Return what stands at an offset, None for no batch."""
        self._catch_up()
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
        markers = self._markers.get(producer, [])
        for index in range(bisect_right(markers, offset), len(markers)):
            at = markers[index]
            if at in missed:
                continue
            written, by, _ = self._content[at]
            committed = self.markers.get((at, written)) if by == producer else None
            if committed is not None and written >= epoch:
                return committed
        return None

    def is_marker(self, offset: int) -> bool:
        """Return whether a marker stands at an offset."""
        found = self.content(offset)
        return found is not None and (offset, found[0]) in self.markers

    def holds(self, offset: int, committed_only: bool, before: int = 1 << 62) -> bool:
        """Return whether an offset has a record for a reader (:meth:`Holes.holds`)."""
        if self.removed.get(offset, before) < before or self.is_marker(offset):
            return False
        return not (committed_only and self.decision(offset) is False)

    def read_by(self, record: tuple[int, int]) -> _Partition:
        """Return the partition as it was when a record, offset and id, was read.

        That is as it is now if the record stands, else as it was before it was cut off. A leader
        that was deposed before the record was written cuts nothing off, nor does one after which
        a replica leads that has the record: it came back before it fetched.
        """
        if not self.cuts:
            return self
        offset, record_id = record
        standing = self.content(offset)
        rivals = self._rivals.get(offset, [standing] if standing else [])
        rows = [row for _, _, row in rivals if self._wrote(row, offset) == record_id]
        if not rows or (offset in self._rivals and standing is not None and standing[2] in rows):
            return self
        wrote = self._batch(rows[-1])[0]
        logs = [(by, runs) for _, by, end, runs in self.elections if offset < end]
        kept = max((by for by, runs in logs if _epoch_at(runs, offset) == wrote), default=-1)
        for row, base, epoch in self.cuts:
            if row > rows[-1] and base <= offset and epoch >= wrote and epoch > kept:
                return self._before(row)
        return self

    def _wrote(self, row: int, offset: int) -> int | None:
        """Return the id of the record that the batch of a row has at an offset, if it is known."""
        _, base, _, _, _, ids = self._batch(row)
        return ids[offset - base] if ids else None

    def _batch(self, row: int) -> tuple[int, int, int, int, int, tuple[int, ...]]:
        return self.appended[bisect_left(self.appended, row, key=lambda batch: batch[4])]

    def _before(self, row: int) -> _Partition:
        past = self._past.get(row)
        if past is None:
            past = self._past[row] = _Partition()
            past.appended = [batch for batch in self.appended if batch[4] < row]
            past.elections = [each for each in self.elections if each[0] <= len(past.appended)]
            past.markers, past.removed = self.markers, self.removed
        return past

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

    def first_open(self, producer: int, end: int) -> int:
        """Return where a producer's transaction is open below ``end``, −1 if none is."""
        self._catch_up()
        first = -1
        for offset in range(end - 1, -1, -1):
            found = self._content.get(offset)
            if found is not None and found[1] == producer:
                if (offset, found[0]) in self.markers:
                    break
                first = offset
        return first

    def hidden_by(self, offset: int) -> list[tuple[int, int]]:
        """Return what hid an offset from readers of committed records, in any leader's log.

        Each is an offset, and the row in which a leader appended what stood there: a marker at the
        offset itself; or an aborted record, and the markers behind it that said so.
        """
        found = []
        batches = {(base, epoch): (pid, seq) for epoch, base, _, pid, seq, _ in self.appended}
        for epoch, base, end, producer, seq, _ in self.appended:
            if not base <= offset < end:
                continue
            if (offset, epoch) in self.markers:
                found.append((offset, seq))
                continue
            for (at, by), committed in self.markers.items():
                pid, marked = batches.get((at, by), (-1, -1))
                if at > offset and by >= epoch and pid == producer and not committed:
                    found += [(offset, seq), (at, marked)]
        return found

    def _catch_up(self) -> None:
        content = self._content
        for index in range(self._read, len(self.appended)):
            self._count_elections(index)
            epoch, base, end, producer, seq, _ = self.appended[index]
            new = (epoch, producer, seq)
            for offset in range(base, end):
                known = content.get(offset)
                if known is None or (known[0] == epoch and offset not in self._rivals):
                    content[offset] = new
                else:
                    self._rivals.setdefault(offset, [known]).append(new)
                    content[offset] = self._standing(offset)
            if (base, epoch) in self.markers:
                markers = self._markers.setdefault(producer, [])
                at = bisect_right(markers, base)
                if markers[at - 1 : at] != [base]:
                    markers.insert(at, base)
        self._read = len(self.appended)
        self._count_elections(self._read)

    def _count_elections(self, appended: int) -> None:
        """Look at the leaders that began before so many batches were appended."""
        while self._counted < len(self.elections) and self.elections[self._counted][0] <= appended:
            end = self.elections[self._counted][2]
            self._counted += 1
            for offset in self._rivals:
                if offset < end:
                    self._content[offset] = self._standing(offset)

    def _standing(self, offset: int) -> Content:
        """Return which of the batches at an offset the latest leader has that had its log there."""
        ranks = {epoch: epoch for epoch, _, _ in self._rivals[offset]}
        for _, leader_epoch, end, runs in self.elections[: self._counted]:
            epoch = _epoch_at(runs, offset) if offset < end else -1
            if epoch in ranks:
                ranks[epoch] = max(ranks[epoch], leader_epoch)
        return max(reversed(self._rivals[offset]), key=lambda batch: ranks[batch[0]])


class Holes:
    """Follows one run; asked when a reader has passed over offsets, and at the end."""

    def __init__(self, trace: FactSource) -> None:
        self._partitions: dict[PartitionKey, _Partition] = {}
        self._committed_only: dict[tuple[str, str], None] = {}  # (node, group): read_committed
        self._committed_parts: dict[tuple[str, PartitionKey], None] = {}  # had such a reader
        self._record_offsets: dict[tuple[str, int, int], tuple[int, ...]] = {}
        self._trace = trace
        self._follows = False
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.MarkerWritten, self._on_marker)
        trace.subscribe(facts.ReadsCommitted, self._on_isolation)
        trace.subscribe(facts.TransactionBegun, self._follow)
        trace.subscribe(facts.KeysAppended, self._follow)
        trace.subscribe(facts.Cleaned, self._on_cleaned)
        trace.subscribe(facts.FinalCleaned, self._on_final_cleaned)

    def _follow(self, _seq: int, _t: int, _node: str, _fact: object) -> None:
        """Follow the replicas' logs once there are transactions or keys: before, nobody asks."""
        if not self._follows:
            self._follows = True
            self._trace.subscribe(facts.Replicated, self._on_replicated)
            self._trace.subscribe(facts.BecameLeader, self._on_leader)

    def _on_replicated(self, _seq: int, _t: int, node: str, fact: facts.Replicated) -> None:
        state = self._partitions.get((fact.topic_id, fact.partition))
        if state is not None:
            state.extend(node, fact.base_offset, fact.batch_epoch)

    def _on_leader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        state = self._partitions.get((fact.topic_id, fact.partition))
        if state is not None:
            runs = tuple(state.runs.get(node, ()))
            election = (len(state.appended), fact.leader_epoch, fact.start_offset, runs)
            state.elections.append(election)

    def _partition(self, fact: PartitionFact) -> _Partition:
        """Return what is known of a partition: nothing of one that the facts began before.

        Compacted topics are followed from their first keys on, so an internal topic may have a
        history by then (``judging/invariants/cleaned/latest.py``).
        """
        key = (fact.topic_id, fact.partition)
        state = self._partitions.get(key)
        if state is None:
            state = self._partitions[key] = _Partition()
        return state

    def _on_appended(self, seq: int, _t: int, node: str, fact: facts.Appended) -> None:
        state = self._partitions.get((fact.topic_id, fact.partition)) or self._partition(fact)
        state.append(fact, seq)
        epoch, base = fact.leader_epoch, fact.base_offset
        runs = state.runs.get(node)
        if runs is None or runs[-1][1] != epoch or runs[-1][0] > base:
            state.extend(node, base, epoch)

    def _on_cleaned(self, seq: int, _t: int, _node: str, fact: facts.Cleaned) -> None:
        removed = self._partition(fact).removed
        for offset in fact.removed_offsets():
            removed.setdefault(offset, seq)

    def _on_final_cleaned(self, _seq: int, _t: int, _node: str, fact: facts.FinalCleaned) -> None:
        if fact.leading:
            place = (fact.topic_id, fact.partition, fact.leader_epoch)
            self._record_offsets[place] = fact.record_offsets

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        state = self._partition(fact)
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

    def epoch(self, key: PartitionKey, offset: int) -> int:
        """Return the leader epoch of the batch that stands at an offset, −1 for no batch."""
        state = self._partitions.get(key)
        found = None if state is None else state.content(offset)
        return -1 if found is None else found[0]

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

    def decision(self, key: PartitionKey, offset: int, missed: Container[int]) -> bool | None:
        """Return whether a record counts as committed where the markers at ``missed`` are not;
        None: no marker ends its transaction there."""
        return self._partitions[key].decision(offset, missed) if self.has_markers(key) else None

    def hidden_by(self, key: PartitionKey, offset: int) -> list[tuple[int, int]]:
        """Return the offsets, with their rows, that hid an offset from committed readers."""
        return self._partitions[key].hidden_by(offset) if self.has_markers(key) else []

    def first_open(self, key: PartitionKey, producer_id: int, end: int) -> int:
        """Return the first offset of a producer's open transaction below ``end``, −1 for none."""
        return self._partitions[key].first_open(producer_id, end)

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
        return self._partitions[key].holds(offset, committed_only, before)

    def readable(
        self, key: PartitionKey, leader: facts.FinalReplica, offset: int, group: str
    ) -> bool:
        """Return whether a group may read the record at an offset of the final log."""
        committed_only = self.was_read_committed(group, key)
        if committed_only and offset >= leader.last_stable_offset:
            return False
        return self.holds(key, offset, committed_only)

    def first_missed(
        self,
        key: PartitionKey,
        low: int,
        high: int,
        committed_only: bool,
        read: tuple[int, int] | None = None,
    ) -> int | None:
        """Return the first offset in [``low``, ``high``) with a record for a reader, or None.

        ``read`` is a record of the log that the reader has read, offset and id; None: that of now.
        """
        if not self.has_holes(key):
            return low
        state = self._partitions[key]
        log = state if read is None else state.read_by(read)
        return next((each for each in range(low, high) if log.holds(each, committed_only)), None)
