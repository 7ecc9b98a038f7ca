"""Share groups: no record is delivered again once it is done, held twice, or skipped (KIP-932).

What a leader hands out is judged by its own facts, ShareAcquired and ShareMoved, and what a member
was told by ShareAcknowledged. Four promises:

- ``accepted-again``: a leader handed out a record that a member had been told is accepted or
  rejected. It answers only when that state is persisted, so no later leader may forget it. A leader
  that another one has replaced goes on from its own memory until it hears of that.
- ``held-twice``: one leader gave a record to a member while another one held it and its lock had
  not expired. Only what the holder does, or its lock, sets a record free.
- ``over-delivered``: one leader gave a record out more often than group.share.delivery.count.limit
  allows. Deliveries that an ended session took back do not count.
- ``share-skipped``: a share partition's start has moved past a committed record that no leader had
  accepted, rejected or archived. A leader archives records of aborted transactions unseen, and
  those must be aborted. It reads no record that its cleaner has removed, though another replica,
  which may lead at the end, can have it still.

Until the first state is written, each leader begins where share.auto.offset.reset says, so the last
one of them counts (SharePartition.startOffsetDuringInitialization).

Each *tenure* of a leader, from the row in which it has read the persisted state, is judged by
itself: locks and deliveries since then are in its memory only. What a group had done is forgotten
when it is deleted. A record at an offset that the partition has lost since is another record. A
legal loss of ``__share_group_state`` explains a forgotten acknowledgement if it took records that
were appended between the leader's move and the member's hearing, and a start that was reset if it
took records that were appended before a member heard of a state at all (``shares/states.py``). So
does a legal loss of the group's partition of ``__consumer_offsets`` before a leader reads the
state: a coordinator that does not know that a share partition was initialized initializes it again,
which resets its state. The loss is none that a coordinator had met which assigned the partition
before the state was written (``shares/assigned.py``). A member may hear of an end that its leader
had not written, and no write may follow (``shares/unwritten.py``). An initialization that was begun
before the share partition was assigned may come late, and reset its state (``shares/late.py``).

The Spark check ``analysis/checks/shares`` finds the same from the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.history.footing import Footing
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.shares.assigned import AssignedShares
from kafkasim.analysis.judging.shares.late import LateInitializations
from kafkasim.analysis.judging.shares.states import StateLogs
from kafkasim.analysis.judging.shares.unwritten import UnwrittenEnds
from kafkasim.analysis.judging.source import Losses, PartitionKey, final_leaders
from kafkasim.model import facts

SharePartition: TypeAlias = tuple[str, str, int]
"""Group, topic id, partition."""

Told: TypeAlias = (
    "facts.ShareAcquired | facts.ShareAcknowledged | facts.ShareMoved | facts.ShareStartMoved"
    " | facts.SharePartitionLoaded"
)

FINAL = ("ACKNOWLEDGED", "ARCHIVED")
GAP, ACCEPT, REJECT = 0, 1, 3
AT_END = 1 << 62
"""A row after all others."""

OF_STATES = ("accepted-again", "share-skipped")
"""What a loss of the share partition's state explains."""


class _Held:
    """Who was given a record last in a tenure, and whether it holds the record."""

    __slots__ = ("active", "member_id", "until_us")

    def __init__(self, member_id: str, until_us: int) -> None:
        self.member_id = member_id
        self.until_us = until_us  # when its lock ends
        self.active = True


class _Tenure:
    """The memory of one leader, since it has read the persisted state."""

    def __init__(self, loaded: int = AT_END) -> None:
        self.loaded = loaded  # the row in which it had read the state
        self.ended: dict[int, None] = {}  # offsets that it accepted, rejected or archived
        self.held: dict[int, _Held] = {}  # by offset
        self.deliveries: dict[int, int] = {}  # by offset


class _Found:
    """An anomaly at one offset: the row that shows it, and the row of the broken promise.

    ``since`` is the row after which the promise was written. ``read`` is the row, later than that,
    in which a leader has read the persisted state and found that it breaks the promise; −1: no
    leader has. The answer that is the promise may reach the member later still. ``why`` is the
    reason that needs no loss, "" for none.
    """

    __slots__ = ("detail", "promise", "read", "seq", "since", "why")

    def __init__(
        self, seq: int, detail: str, promise: int, read: int = -1, since: int = -1, why: str = ""
    ) -> None:
        self.seq = seq
        self.since = since
        self.detail = detail
        self.promise = promise
        self.read = read
        self.why = why


class _Told:
    """What has happened to the records of one share partition."""

    def __init__(self) -> None:
        self.leader = ""  # the node that has loaded it last
        self.epoch = -1  # the highest leader epoch in which one has
        self.leading = _Tenure()  # of the leader of that epoch
        self.tenures: dict[tuple[str, int], _Tenure] = {}  # by node and leader epoch
        self.reads: list[int] = []  # the rows in which a leader had read the state
        self.found: dict[str, dict[int, _Found]] = {}  # by anomaly and offset
        self.forget()

    def forget(self) -> None:
        """Begin anew: the group was deleted."""
        self.begin = -1  # the start offset of the last leader that found no state
        self.loaded = -1  # the row in which a leader had read the state first
        self.written = AT_END  # the row in which a member heard first of a state that was written
        self.starts: list[tuple[int, int]] = []  # each start above all before it, and its row
        self.deleted = 0  # below it the log had no record any more
        self.final: dict[int, None] = {}  # offsets that a leader accepted, rejected or archived
        self.aborted: dict[int, None] = {}  # offsets that a leader archived as aborted
        self.done: dict[int, int] = {}  # offset to the row in which a member heard of its end
        self.gaps: dict[int, int] = {}  # the same of offsets without a record
        self.ended: dict[int, int] = {}  # offset to the row in which a leader ended it last
        self.since: dict[int, int] = {}  # the same, when the member heard of its end

    @property
    def start(self) -> int:
        """The highest start offset of all leaders, −1 before the first one."""
        return self.starts[-1][1] if self.starts else -1

    def move_start(self, seq: int, offset: int) -> None:
        """Note the start offset of a leader."""
        if offset > self.start:
            self.starts.append((seq, offset))


class Shares:
    """Follows one run; :meth:`finish` returns an anomaly for each kind and share partition."""

    def __init__(
        self,
        trace: FactSource,
        losses: Losses,
        holes: Contents,
        most_deliveries: int = 5,
        note: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        """``note(observation, µs)`` is told what happens to records."""
        self._losses = losses
        self._holes = holes
        self._most_deliveries = most_deliveries
        self._note = note
        self._told: dict[SharePartition, _Told] = {}
        self._logs = final_leaders(trace)
        self._footing = Footing(trace, losses)
        self._states = StateLogs(trace)
        self._assigned = AssignedShares(trace, self._footing)
        self._unwritten = UnwrittenEnds(trace)
        self._late = LateInitializations(trace, self._footing, self._states)
        for kind, handler in (
            (facts.ShareGroupState, self._on_group),
            (facts.SharePartitionLoaded, self._on_loaded),
            (facts.ShareAcquired, self._on_acquired),
            (facts.ShareMoved, self._on_moved),
            (facts.ShareStartMoved, self._on_start),
            (facts.ShareAcknowledged, self._on_acknowledged),
        ):
            trace.subscribe(kind, handler)

    # ------------------------------------------------------------------------------------ facts

    def _of(self, fact: Told) -> _Told:
        key = (fact.group, fact.topic_id, fact.partition)
        told = self._told.get(key)
        if told is None:
            told = self._told[key] = _Told()
        return told

    def _on_group(self, _seq: int, _t: int, _node: str, fact: facts.ShareGroupState) -> None:
        if fact.state == "Dead":
            for (group, _, _), told in self._told.items():
                if group == fact.group:
                    told.forget()

    def _on_loaded(self, seq: int, t_us: int, node: str, fact: facts.SharePartitionLoaded) -> None:
        told = self._of(fact)
        if told.leader not in ("", node):
            self._note("share-leader-changed", t_us)
        told.leader = node
        told.reads.append(seq)
        if told.loaded == -1:
            told.loaded = seq
        if told.written == AT_END:
            told.begin = max(told.begin, fact.start_offset)
        told.move_start(seq, fact.start_offset)
        tenure = told.tenures[node, fact.leader_epoch] = _Tenure(seq)
        if fact.leader_epoch >= told.epoch:
            told.epoch, told.leading = fact.leader_epoch, tenure

    def _on_acquired(self, seq: int, t_us: int, node: str, fact: facts.ShareAcquired) -> None:
        told = self._of(fact)
        if fact.delivery_count > 1:
            self._note("share-redelivered", t_us)
        tenure = told.tenures.setdefault((node, fact.leader_epoch), _Tenure())
        key = (fact.topic_id, fact.partition)
        deposed = fact.leader_epoch < told.epoch
        for offset in range(fact.first_offset, fact.last_offset + 1):
            done = None if deposed else told.done.get(offset)
            if done is not None and not self._was_lost(key, offset, done, seq):
                since = told.since[offset]
                read = told.reads[-1] if told.reads and told.reads[-1] > since else -1
                why = self._unwritten.excuse(node, fact, offset)
                again = _Found(seq, "was handed out again", done, read, since, why)
                _find(told, "accepted-again", offset, again)
            held = tenure.held.get(offset)
            if held is not None and held.active and t_us < held.until_us:
                twice = _Found(seq, f"was held by {held.member_id}", -1)
                _find(told, "held-twice", offset, twice)
            tenure.held[offset] = _Held(fact.member_id, t_us + fact.lock_us)
            count = tenure.deliveries[offset] = tenure.deliveries.get(offset, 0) + 1
            count = max(count, fact.delivery_count)
            if count > self._most_deliveries:
                over = _Found(seq, f"was delivered {count} times", -1)
                _find(told, "over-delivered", offset, over)

    def _on_moved(self, seq: int, t_us: int, node: str, fact: facts.ShareMoved) -> None:
        told = self._of(fact)
        self._observe(fact, t_us)
        tenure = told.tenures.setdefault((node, fact.leader_epoch), _Tenure())
        offsets = range(fact.first_offset, fact.last_offset + 1)
        if fact.reason == "aborted":
            told.aborted.update(dict.fromkeys(offsets))
        elif fact.state in FINAL:
            told.final.update(dict.fromkeys(offsets))
            told.ended.update(dict.fromkeys(offsets, seq))
        if fact.state in FINAL:
            tenure.ended.update(dict.fromkeys(offsets))
        for offset in offsets:
            held = tenure.held.get(offset)
            if held is None or held.member_id != fact.member_id:
                continue
            held.active = fact.state == "ACQUIRED"
            if fact.reason == "session-ended":
                tenure.deliveries[offset] -= 1

    def _observe(self, fact: facts.ShareMoved, t_us: int) -> None:
        if fact.reason == "lock-expired":
            self._note("share-lock-expired", t_us)
        elif fact.reason == "session-ended":
            self._note("share-released", t_us)
        if fact.reason == "aborted":
            self._note("share-archived:aborted", t_us)
        elif fact.state == "ARCHIVED":
            used_up = fact.delivery_count >= self._most_deliveries
            self._note(f"share-archived:{'deliveries' if used_up else 'rejected'}", t_us)

    def _on_start(self, seq: int, _t: int, _node: str, fact: facts.ShareStartMoved) -> None:
        told = self._of(fact)
        told.move_start(seq, fact.start_offset)
        if fact.reason == "log-start":
            told.deleted = max(told.deleted, fact.start_offset)

    def _on_acknowledged(
        self, seq: int, _t: int, _node: str, fact: facts.ShareAcknowledged
    ) -> None:
        if fact.error == "NONE":
            told = self._of(fact)
            told.written = min(seq, told.written)
            for offset, kind in zip(fact.offsets, fact.types, strict=True):
                if kind in (ACCEPT, REJECT):
                    told.done[offset] = seq
                    told.since[offset] = told.ended.get(offset, -1)
                elif kind == GAP:
                    told.gaps[offset] = seq

    # ------------------------------------------------------------------------------- judgement

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, by share partition and excuse."""
        anomalies = []
        for (group, topic_id, number), told in sorted(self._told.items()):
            key = (topic_id, number)
            self._find_skipped(key, told)
            for name, offsets in told.found.items():
                excused: dict[str, dict[int, _Found]] = {}
                for offset, found in offsets.items():
                    why = self._excuse(name, group, key, offset, found)
                    excused.setdefault(why, {})[offset] = found
                for why, judged in excused.items():
                    offset, first = min(judged.items(), key=lambda each: (each[1].seq, each[0]))
                    text = f"group {group}: offset {offset} {first.detail}"
                    of = Finding(name, *key, text, len(judged), why, group=group)
                    anomalies.append(replace(of, offset=offset, seq=first.seq))
        return anomalies

    def _excuse(self, name: str, group: str, key: PartitionKey, offset: int, found: _Found) -> str:
        """Return why the state of a share partition was forgotten, or was never written, or ""."""
        if name not in OF_STATES:
            return ""
        state = self._footing.of_share(group, key, before=found.seq)
        spots = self._states.within(state, found.since, found.promise)
        why = found.why
        if found.read != -1:
            if spots and not why:
                above = offset if name == "accepted-again" else -1
                rows = found.since, found.read
                why = self._late.excuse((group, *key), spots[0], rows, offset, above)
            partition = self._footing.name_of(key)
            known = self._assigned.known_since(group, partition, before=found.since)
            spots.append(self._footing.of_group(group, after=known, before=found.read))
        return self._footing.lost(spots) or why

    def _find_skipped(self, key: PartitionKey, told: _Told) -> None:
        log = self._logs.get(key)
        if log is None or told.begin < 0:
            return
        for offset in _data_offsets(log):
            if not max(told.begin, told.deleted) <= offset < told.start or offset in told.final:
                continue
            if offset in told.aborted and self._holes.is_aborted(key, offset):
                continue
            seq = next(seq for seq, start in told.starts if start > offset)
            removed = not self._holes.holds(key, offset, committed_only=False, before=seq)
            if not removed and not self._was_lost(key, offset, -1, seq):
                read = seq if seq in told.reads else -1
                skipped = _Found(seq, "was skipped", told.written, read, told.loaded)
                _find(told, "share-skipped", offset, skipped)

    def _was_lost(self, key: PartitionKey, offset: int, after: int, before: int) -> bool:
        """Return whether the partition lost what stood at an offset, between two rows."""
        return any(loss.covers(offset) and after < loss.seq < before for loss in self._losses(key))


def _find(told: _Told, name: str, offset: int, found: _Found) -> None:
    told.found.setdefault(name, {}).setdefault(offset, found)


def _data_offsets(log: facts.FinalReplica) -> list[int]:
    """Return the offsets of the batches with records that are data."""
    found: list[int] = []
    for base, end, count in zip(log.base_offsets, log.next_offsets, log.record_counts, strict=True):
        if count == end - base:  # no marker, and nothing was compacted
            found += range(base, end)
    return found
