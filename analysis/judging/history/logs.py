"""The logs of one partition as the trace tells them, and what its leaders have exposed and lost.

A replica's log is a rolling prefix hash per batch, so "the same batch after the same prefix" is one
dictionary look-up. A high watermark is *exposed* once a leader has announced it. A new leader may
lack exposed records: that is a loss, legal or not, and what follows is judged by the new leader's
log.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass, field

from kafkasim.analysis.judging.source import FORGOTTEN, Loss, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import node_of

Batch = tuple[int, int, int, int]
"""Base offset, end offset (exclusive), leader epoch, checksum (``model/facts/checksums.py``)."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A replica took a batch that differs from what another one held there, or behind another
    prefix."""

    seq: int
    t_us: int
    node: str
    base: int
    end: int
    epoch: int


@dataclass(frozen=True, slots=True)
class Lacking:
    """A replica became leader without all that earlier leaders had exposed."""

    seq: int
    t_us: int
    node: str
    leader_epoch: int
    log_end: int
    exposed: int
    reason: str  # why that is legal, "" if it is not


class ReplicaLog:
    """One replica's log as prefix hashes: ``hashes[i]`` covers everything below ``nexts[i]``.

    A log that was truncated fully begins at ``start``, and ``start_hash`` covers what the leader
    had deleted below. Both are 0 for a log from the partition's first record on.
    """

    __slots__ = (
        "epochs", "hashes", "high_watermark", "joining", "nexts", "start", "start_hash",
        "suspect", "trimmed", "unawaited",
    )  # fmt: skip

    def __init__(self) -> None:
        self.trimmed = 0  # the highest log start that it had: its epoch cache begins there
        self.start = self.start_hash = 0
        self.nexts: list[int] = []
        self.epochs: list[int] = []
        self.hashes: list[int] = []
        self.high_watermark = (-1, 0, 0)  # as leader: its epoch, the last mark, and the one before
        self.suspect = False  # it lost data while in the ISR, and has not left the ISR since
        self.joining = False  # it lost data while caught up, and may join until it registers again
        # What a leader exposed that had forgotten its expansion: the mark before and its prefix
        # hash, then the last one.
        self.unawaited: tuple[int, int, int] | None = None

    def lost(self, member: bool, exposed: int, exposed_hash: int) -> None:
        """Remember that the replica lost its disk, or what was not flushed.

        ``member`` is whether it was in the ISR; the others are what leaders have exposed.
        """
        self.suspect = member
        fit = self.joining or self.holds(exposed, exposed_hash)
        self.joining = fit and not member

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch."""
        return self.nexts[-1] if self.nexts else self.start

    def prefix(self, offset: int) -> int:
        """Return the hash of the batches below ``offset`` (0 for none), from the start up."""
        index = bisect_right(self.nexts, offset)
        return self.hashes[index - 1] if index else self.start_hash

    def holds(self, offset: int, prefix_hash: int) -> bool:
        """Return whether the log reaches ``offset`` and is that prefix below it.

        Nothing is asked of records below its start: they were deleted.
        """
        nexts = self.nexts
        if offset <= self.start:
            return self.start > 0 or prefix_hash == 0
        if not nexts:
            return False
        if nexts[-1] <= offset:
            return nexts[-1] == offset and self.hashes[-1] == prefix_hash
        return self.prefix(offset) == prefix_hash

    def place(self, offset: int) -> tuple[int, int] | None:
        """Return the end offset and leader epoch of the batch at an offset, None beyond the end."""
        at = bisect_right(self.nexts, offset)
        return (self.nexts[at], self.epochs[at]) if at < len(self.nexts) else None

    def shared(self, other: ReplicaLog, low: int, high: int) -> int:
        """Return up to where another log has the same records, ``low`` if none behind that."""
        ends = [each for each in self.nexts if low < each <= high]
        return next((end for end in reversed(ends) if other.holds(end, self.prefix(end))), low)

    def was_forgotten(self, exposed: int) -> bool:
        """Return whether it lacks only what a leader exposed that had forgotten its expansion."""
        if self.unawaited is None:
            return False
        mark, prefix_hash, end = self.unawaited
        return exposed <= end and self.holds(mark, prefix_hash)

    def cut(self, offset: int) -> None:
        """Drop every batch that reaches beyond ``offset``."""
        index = bisect_right(self.nexts, offset)
        del self.nexts[index:], self.epochs[index:], self.hashes[index:]


@dataclass(slots=True)
class PartitionHistory:
    """One partition as the trace tells it."""

    key: PartitionKey
    replicas: dict[str, ReplicaLog] = field(default_factory=dict)
    dropped: dict[str, ReplicaLog] = field(default_factory=dict)
    """By node: the log that was deleted last, which a power loss may bring back"""
    canonical: dict[tuple[int, int], int] = field(default_factory=dict)
    """(end offset, leader epoch) of a batch to the prefix hash of the first replica that held it"""
    assignment: tuple[int, ...] = ()  # in ZooKeeper mode: the replicas, by the controller
    assigned_at: int = -1  # the zxid of that assignment
    isr: tuple[int, ...] = ()
    members: tuple[str, ...] = ()  # the nodes of the ISR
    joined: tuple[str, ...] = ()  # the nodes that the last change added to the ISR
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    exposed: int = 0  # the highest high watermark that any leader had
    exposed_hash: int = 0  # the prefix hash below it, in that leader's log
    exposed_at: int = -1  # the row that exposed it
    exposed_to: tuple[str, ...] = ()  # the members of the ISR that its leader had to wait for
    unclean_epoch: int = -1  # the last leader epoch that began with an unclean election
    led_epoch: int = -1  # the highest leader epoch in which any replica became leader
    led_by: ReplicaLog | None = None  # the log of the one that became leader in it last
    marks: list[tuple[int, int]] = field(default_factory=list)
    """Each high watermark that rose above all before it, with the prefix hash below it"""
    losses: list[Loss] = field(default_factory=list)
    lacking: list[Lacking] = field(default_factory=list)
    mismatches: list[Mismatch] = field(default_factory=list)
    forgotten: dict[tuple[str, int], tuple[int, ...]] = field(default_factory=dict)
    """Leader and leader epoch -> the members whose expansion that leader has forgotten"""
    reopened: list[tuple[int, int]] = field(default_factory=list)
    """The leader epochs in which a leader went on that had lost records, with its log end then"""
    deleted: int = 0  # below it a leader deleted the records, by DeleteRecords or retention
    compacted: bool = False  # it may be cleaned, so leaders' batches are remembered
    originals: dict[tuple[int, int], Batch] = field(default_factory=dict)
    """Of a compacted topic: the batches that leaders appended, by end offset and leader epoch"""
    removed: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Offsets that a cleaner has removed from a replica -> the batch (end offset, leader epoch)"""

    def extend(self, replica: ReplicaLog, batch: Batch) -> bool:
        """Add a batch to a replica's log; return whether it agrees with all other replicas.

        It agrees if every replica that held a batch with this end offset and leader epoch held
        the same batch after the same prefix. A follower that continues at the leader's log start
        may differ below it (see :meth:`cut`).
        """
        base, end, epoch, _ = batch
        prefix = hash((replica.hashes[-1] if replica.hashes else replica.start_hash, batch))
        known = self.canonical.setdefault((end, epoch), prefix)
        if prefix != known and base <= self.deleted:
            prefix = hash((self._prefix(base), batch))
        replica.nexts.append(end)
        replica.epochs.append(epoch)
        replica.hashes.append(prefix)
        return prefix == known

    def holds_exposed(self, replica: ReplicaLog) -> bool:
        """Return whether a replica holds all that leaders have exposed and not deleted."""
        if replica.holds(self.exposed, self.exposed_hash):
            return True
        return self.exposed <= min(self.deleted, replica.log_end_offset)

    def was_longer(self, leader: ReplicaLog, epoch: int) -> bool:
        """Return whether a batch of a leader epoch is known that lies beyond a leader's log."""
        end = leader.log_end_offset
        return any(known > end and of == epoch for known, of in self.canonical)

    def lose(self, leader: ReplicaLog, seq: int, t_us: int, reason: str) -> None:
        """Account for what a new leader lacks of the exposed records: what follows, it answers for.

        ``seq`` is the row of its election; ``reason`` says why the loss is legal, "" if it is not.
        """
        end, marks = self.exposed, self.marks
        while marks and not leader.holds(*marks[-1]):
            marks.pop()
        self.exposed = max(min(self.exposed, leader.log_end_offset), leader.start)
        self.exposed_hash = leader.prefix(self.exposed)
        if reason:
            self.losses.append(Loss(marks[-1][0] if marks else 0, end, seq, t_us, reason))

    def expose_deposed(
        self, node: str, fact: facts.HighWatermark, before: int, seq: int, t_us: int, reason: str
    ) -> bool:
        """Account for a high watermark of a leader that an unclean election has deposed.

        The leader's ISR lacks the elected broker, so it advances ``before``, its high watermark
        until now, without it until it hears of the election. What the elected leader lacks is lost
        at once, for a ``reason``: return True if that is any of it.
        """
        elected = self.led_by
        if elected is None or self.led_epoch < self.unclean_epoch:
            return False  # the elected broker does not lead yet, and will answer for it
        leader, end = self.replica(node), fact.high_watermark
        first = leader.shared(elected, before, end)
        if first < end:
            self.losses.append(Loss(first, end, seq, t_us, reason))
        return first < end

    def expose_unawaited(
        self, node: str, fact: facts.HighWatermark, before: int, seq: int, t_us: int
    ) -> bool:
        """Account for a high watermark of a leader that has forgotten an expansion.

        ``before`` is its high watermark before. Members that joined, or will join, and that the
        leader does not know to hold the records, may lack them. If the controller has made one the
        leader of a later epoch, what that one lacks is lost at once: return True.
        """
        leader = self.replica(node)
        for member in self.forgotten.get((node, fact.leader_epoch), ()):
            if member in fact.acknowledged:
                continue
            replica, end = self.replica(node_of(member)), fact.high_watermark
            if self.leader == member and self.leader_epoch > fact.leader_epoch:
                first = leader.shared(replica, before, end)
                if first < end:
                    self.losses.append(Loss(first, end, seq, t_us, FORGOTTEN))
                return True
            if end > self.exposed:
                mark = (self.exposed, self.exposed_hash)
                if replica.was_forgotten(self.exposed) and replica.unawaited is not None:
                    mark = replica.unawaited[:2]
                replica.unawaited = (*mark, end)
        return False

    def was_reopened(self, epoch: int, offset: int) -> bool:
        """Return whether a leader that had lost the record at an offset went on in its epoch."""
        return any(epoch == each and offset >= start for each, start in self.reopened)

    def set_isr(self, isr: tuple[int, ...]) -> None:
        """Set the controller's ISR."""
        self.isr, self.members = isr, tuple([node_of(broker) for broker in isr])

    def lost(self, offset: int) -> str:
        """Return why the record at an offset was legally lost, or ""."""
        return next((loss.reason for loss in self.losses if loss.covers(offset)), "")

    def cut(self, replica: ReplicaLog, offset: int) -> None:
        """Drop every batch of a replica that reaches beyond ``offset``; its log ends there.

        A replica that has only deleted records left may have got other ones from a deposed leader:
        its epoch tells the present leader nothing, whose log starts above (KAFKA.md, 1.2). A cut
        within a batch drops the whole batch, and yet the log ends at ``offset``
        (LocalLog.truncateTo).
        """
        end = min(offset, replica.log_end_offset)
        replica.cut(offset)
        if offset < replica.start:
            self.restart(replica, offset)
        elif replica.start < end <= self.deleted and replica.prefix(end) != self._prefix(end):
            trimmed = replica.trimmed
            self.restart(replica, end)
            replica.trimmed = trimmed

    def restart(self, replica: ReplicaLog, offset: int) -> None:
        """Empty a replica's log; it goes on at ``offset``.

        If a leader has deleted all records below ``offset``, the replica counts as if it had held
        them: logs are compared from the highest log start up. Otherwise they are a hole in its log.
        """
        replica.nexts, replica.epochs, replica.hashes = [], [], []
        replica.start = replica.start_hash = replica.trimmed = 0
        if 0 < offset <= self.deleted:
            replica.start_hash = self._prefix(offset)
            replica.start = offset

    def _prefix(self, offset: int) -> int:
        """Return the hash of the records below ``offset``, which have been committed.

        A replica with all records below the highest high watermark has them; when all of these
        have lost records, the log with the latest leader epoch counts, then the longest.
        """
        known = [each for each in self.replicas.values() if each.start <= offset]
        reach = [each for each in known if each.log_end_offset >= offset]
        if not reach:
            return 0
        best = max(
            reach,
            key=lambda each: (
                each.holds(self.exposed, self.exposed_hash),
                each.epochs[-1] if each.epochs else -1,
                each.log_end_offset,
            ),
        )
        return best.prefix(offset)

    def come_back(self, node: str, end: int) -> None:
        """Take a node's deleted log for the one that it has loaded, if only that one ends there.

        A power loss may undo the renaming of its directory (LogManager.asyncDelete, KAFKA-3968).
        """
        if end > 0 and end in self.dropped[node].nexts and end not in self.replica(node).nexts:
            self.replicas[node] = self.dropped.pop(node)

    def fill(self, replica: ReplicaLog, offset: int) -> None:
        """Give a follower the batches below ``offset`` that were removed from what it copies.

        If they were the first of their leader epoch, followers know a later start of that epoch
        (UnifiedLog.append: the base offset of the first batch that came), and as leaders let a
        replica keep its own batches of an older epoch up to that start. These count as removed.
        """
        while replica.nexts:
            _, epoch = self.removed.get(replica.nexts[-1] - 1, (-1, -1))
            if epoch <= replica.epochs[-1]:
                break
            replica.cut(replica.nexts[-2] if len(replica.nexts) > 1 else replica.start)
        at = replica.log_end_offset
        while at < offset:
            original = self.originals.get(self.removed.get(at, (-1, -1)))
            if original is None or not all(
                each in self.removed for each in range(original[0], original[1])
            ):
                return
            self.extend(replica, original)
            at = original[1]

    def original(self, batch: Batch) -> Batch:
        """Return a batch that a cleaner has taken records from as its leader appended it.

        Which records are gone is judged where they are removed (LATEST), and not where followers
        copy the rest. A batch of which no replica has removed a record is returned as it is.
        """
        base, end, epoch, _ = batch
        original = self.originals.get((end, epoch), batch)
        some = any(offset in self.removed for offset in range(base, end))
        return original if original[0] == base and some else batch

    def replica(self, node: str) -> ReplicaLog:
        """Return the replica on a node; an unknown one is added with an empty log."""
        known = self.replicas.get(node)
        if known is None:
            known = self.replicas[node] = ReplicaLog()
        return known
