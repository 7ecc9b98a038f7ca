"""Share groups: no record is delivered again once it is done, held twice, or skipped (KIP-932).

What a leader hands out is judged by its own facts, ShareAcquired and ShareMoved, and what a member
was told by ShareAcknowledged. Each *tenure* of a leader, from the row in which it has read the
persisted state, is judged by itself: locks and deliveries since then are in its memory only. What a
group had done is forgotten when it is deleted. A record at an offset that the partition has lost
since is another record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.holes import Place
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

SharePartition = tuple[str, str, int]
"""Group, topic id, partition."""

Fact = (
    facts.ShareAcquired | facts.ShareAcknowledged | facts.ShareMoved | facts.ShareStartMoved
    | facts.SharePartitionLoaded
)  # fmt: skip

FINAL = ("ACKNOWLEDGED", "ARCHIVED")
UNAWAITED = ("lock-expired", "rolled-back")
"""Why a leader archives records without an answer that waits for the write."""
ACCEPT, REJECT = 1, 3
NEVER = 1 << 62

UNWRITTEN = "unwritten-end"
"""The hole of a member that hears of an end which its leader has not written.

The leader archives a record whose lock expired for the last time in its memory, and another write
moves the start offset over it. acknowledge() passes over what is below the start offset, so the
member hears NONE; if the write is lost, the next leader reads the older state (KAFKA.md, 3.6).
"""


@dataclass(slots=True)
class _Held:
    """Who was given a record last in a tenure, and whether it holds the record."""

    member_id: str
    until_us: int  # when its lock ends
    active: bool = True


@dataclass(slots=True)
class _Tenure:
    """The memory of one leader, since it has read the persisted state."""

    held: dict[int, _Held] = field(default_factory=dict)  # by offset
    deliveries: dict[int, int] = field(default_factory=dict)  # by offset


@dataclass(slots=True)
class _Ended:
    """The last end of a record."""

    seq: int
    tenure: _Tenure
    unawaited: bool


class _Shares:
    """What has happened to the records of one share partition."""

    def __init__(self) -> None:
        self.leader = ""  # the node that has loaded it last
        self.epoch = -1  # the highest leader epoch in which one has
        self.tenures: dict[tuple[str, int], _Tenure] = {}  # by node and leader epoch
        self.found: dict[tuple[str, int], Finding] = {}  # by name and offset, the first one
        self.forget()

    def forget(self) -> None:
        """Begin anew: the group was deleted."""
        self.begin = -1  # the start offset of the last leader that found no state
        self.loaded = -1  # the row in which a leader had read the state first
        self.written = False  # a member has heard of a state that was written
        self.starts: list[tuple[int, int, int]] = []
        """Each start above all before it, with its row and time"""
        self.deleted = 0  # below it the log had no record any more
        self.final: dict[int, None] = {}  # offsets that a leader accepted, rejected or archived
        self.aborted: dict[int, None] = {}  # offsets that a leader archived as aborted
        self.ended: dict[int, _Ended] = {}  # by offset
        self.done: dict[int, tuple[int, _Ended | None]] = {}
        """By offset: the row in which a member heard of its end, and that end"""

    def move_start(self, seq: int, t_us: int, offset: int) -> None:
        """Note the start offset of a leader."""
        if not self.starts or offset > self.starts[-1][2]:
            self.starts.append((seq, t_us, offset))


class ShareDeliveries:
    """accepted-again, held-twice, over-delivered, share-skipped.

    - accepted-again: a leader hands out a record that a member was told is accepted or rejected. It
      answers only when that state is persisted, so no later leader may forget it. A leader that
      another one has replaced goes on from its own memory until it hears of that.
    - held-twice: one leader gives a record to a member while another one holds it and its lock has
      not expired.
    - over-delivered: one leader gives a record out more often than group.share.delivery.count.limit
      allows. Deliveries that an ended session took back do not count.
    - share-skipped: a share partition's start moves past a committed record that no leader has
      accepted, rejected or archived. Until the first state is written, each leader begins where
      share.auto.offset.reset says, so the last one of them counts.

    A legal loss of the share partition's state explains what is forgotten; so does one of the
    group's partition of ``__consumer_offsets``, as a coordinator that does not know that a share
    partition was initialized initializes it again. ``note(observation, µs)`` is told what happens.
    """

    def __init__(
        self,
        trace: FactSource,
        history: History,
        most_deliveries: int = 5,
        note: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        self._history = history
        self._most_deliveries = most_deliveries
        self._note = note
        self._shares: dict[SharePartition, _Shares] = {}
        follow(trace, self)

    def _of(self, fact: Fact) -> _Shares:
        return self._shares.setdefault((fact.group, fact.topic_id, fact.partition), _Shares())

    def on_ShareGroupState(
        self, _seq: int, _t: int, _node: str, fact: facts.ShareGroupState
    ) -> None:
        """Forget a group that was deleted."""
        if fact.state == "Dead":
            for (group, _, _), shares in self._shares.items():
                if group == fact.group:
                    shares.forget()

    def on_SharePartitionLoaded(
        self, seq: int, t: int, node: str, fact: facts.SharePartitionLoaded
    ) -> None:
        """Begin a tenure."""
        shares = self._of(fact)
        if shares.leader not in ("", node):
            self._note("share-leader-changed", t)
        shares.leader = node
        if shares.loaded == -1:
            shares.loaded = seq
        if not shares.written:
            shares.begin = max(shares.begin, fact.start_offset)
        shares.move_start(seq, t, fact.start_offset)
        shares.tenures[node, fact.leader_epoch] = _Tenure()
        shares.epoch = max(shares.epoch, fact.leader_epoch)

    def on_ShareAcquired(self, seq: int, t: int, node: str, fact: facts.ShareAcquired) -> None:
        """Judge records that are handed out."""
        shares = self._of(fact)
        if fact.delivery_count > 1:
            self._note("share-redelivered", t)
        tenure = shares.tenures.setdefault((node, fact.leader_epoch), _Tenure())
        for offset in range(fact.first_offset, fact.last_offset + 1):
            if fact.leader_epoch >= shares.epoch:
                self._judge_again(seq, t, node, fact, shares, offset)
            held = tenure.held.get(offset)
            if held is not None and held.active and t < held.until_us:
                text = f"was held by {held.member_id}"
                self._find("held-twice", shares, fact, offset, text, seq, t)
            tenure.held[offset] = _Held(fact.member_id, t + fact.lock_us)
            count = tenure.deliveries[offset] = tenure.deliveries.get(offset, 0) + 1
            if max(count, fact.delivery_count) > self._most_deliveries:
                text = f"was delivered {max(count, fact.delivery_count)} times"
                self._find("over-delivered", shares, fact, offset, text, seq, t)

    def _judge_again(
        self, seq: int, t: int, node: str, fact: facts.ShareAcquired, shares: _Shares, offset: int
    ) -> None:
        heard, end = shares.done.get(offset, (NEVER, None))
        key = (fact.topic_id, fact.partition)
        if heard == NEVER or self._was_lost(key, offset, heard, seq):
            return
        why = self._lost_state(fact.group, key, -1 if end is None else end.seq, seq)
        other = end is not None and end.tenure is not shares.tenures[node, fact.leader_epoch]
        if not why and end is not None and end.unawaited and other:
            why = UNWRITTEN
        text, since = "was handed out again", -1 if end is None else end.seq
        self._find("accepted-again", shares, fact, offset, text, seq, t, why, since)

    def on_ShareMoved(self, seq: int, t: int, node: str, fact: facts.ShareMoved) -> None:
        """Take what a leader did with records."""
        shares = self._of(fact)
        self._observe(fact, t)
        tenure = shares.tenures.setdefault((node, fact.leader_epoch), _Tenure())
        offsets = range(fact.first_offset, fact.last_offset + 1)
        if fact.reason == "aborted":
            shares.aborted.update(dict.fromkeys(offsets))
        elif fact.state in FINAL:
            shares.final.update(dict.fromkeys(offsets))
            end = _Ended(seq, tenure, fact.reason in UNAWAITED)
            shares.ended.update(dict.fromkeys(offsets, end))
        for offset in offsets:
            held = tenure.held.get(offset)
            if held is None or held.member_id != fact.member_id:
                continue
            held.active = fact.state == "ACQUIRED"
            if fact.reason == "session-ended":
                tenure.deliveries[offset] -= 1

    def _observe(self, fact: facts.ShareMoved, t: int) -> None:
        if fact.reason == "lock-expired":
            self._note("share-lock-expired", t)
        elif fact.reason == "session-ended":
            self._note("share-released", t)
        if fact.reason == "aborted":
            self._note("share-archived:aborted", t)
        elif fact.state == "ARCHIVED":
            used_up = fact.delivery_count >= self._most_deliveries
            self._note(f"share-archived:{'deliveries' if used_up else 'rejected'}", t)

    def on_ShareStartMoved(self, seq: int, t: int, _node: str, fact: facts.ShareStartMoved) -> None:
        """Take a start offset."""
        shares = self._of(fact)
        shares.move_start(seq, t, fact.start_offset)
        if fact.reason == "log-start":
            shares.deleted = max(shares.deleted, fact.start_offset)

    def on_ShareAcknowledged(
        self, seq: int, _t: int, _node: str, fact: facts.ShareAcknowledged
    ) -> None:
        """Take what a member hears."""
        if fact.error == "NONE":
            shares = self._of(fact)
            shares.written = True
            for offset, kind in zip(fact.offsets, fact.types, strict=True):
                if kind in (ACCEPT, REJECT):
                    shares.done[offset] = (seq, shares.ended.get(offset))

    # Judging.

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        for (group, topic_id, partition), shares in self._shares.items():
            self._find_skipped(group, (topic_id, partition), shares)
        return [
            finding
            for _, shares in sorted(self._shares.items(), key=lambda each: each[0])
            for finding in shares.found.values()
        ]

    def _find_skipped(self, group: str, key: PartitionKey, shares: _Shares) -> None:
        contents = self._history.contents
        log = contents.leaders.get(key)
        if log is None or shares.begin < 0 or not shares.starts:
            return
        for offset in _data_offsets(log):
            begun = max(shares.begin, shares.deleted) <= offset < shares.starts[-1][2]
            if not begun or offset in shares.final:
                continue
            if offset in shares.aborted and contents.is_aborted(key, offset):
                continue
            seq, t = next((seq, t) for seq, t, start in shares.starts if start > offset)
            there = contents.holds(key, offset, committed_only=False, before=seq)
            if there and not self._was_lost(key, offset, -1, seq):
                why = self._lost_state(group, key, shares.loaded, seq)
                self._find(
                    "share-skipped", shares, (group, *key), offset, "was skipped", seq, t, why
                )

    def _lost_state(self, group: str, key: PartitionKey, since: int, seq: int) -> str:
        """Return why what a leader wrote after a row may be forgotten, or ""."""
        footing = self._history.footing
        spots = [footing.of_share(group, key, since, seq), footing.of_group(group, before=seq)]
        return footing.lost(spots)

    def _was_lost(self, key: PartitionKey, offset: int, after: int, before: int) -> bool:
        """Return whether the partition lost what stood at an offset, between two rows."""
        losses = self._history.losses(key)
        return any(loss.covers(offset) and after < loss.seq < before for loss in losses)

    def _find(
        self,
        name: str,
        shares: _Shares,
        of: SharePartition | facts.ShareAcquired,
        offset: int,
        text: str,
        seq: int,
        t: int,
        why: str = "",
        since: int = -1,
    ) -> None:
        if (name, offset) in shares.found:
            return
        if isinstance(of, facts.ShareAcquired):
            of = (of.group, of.topic_id, of.partition)
        group, *_ = of
        place = Place(of[1], of[2], group)
        why = why or self._history.holes.covering(name, place, seq, since)
        text = f"group {group}: offset {offset} {text}"
        shares.found[name, offset] = Finding(
            name, of[1], of[2], text, 1, why, offset, -1, group, seq, t
        )


def _data_offsets(log: facts.FinalReplica) -> Iterator[int]:
    """Yield the offsets of the batches with records that are data."""
    for base, end, count in zip(log.base_offsets, log.next_offsets, log.record_counts, strict=True):
        if count == end - base:  # no marker, and nothing was compacted
            yield from range(base, end)
