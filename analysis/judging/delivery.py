"""The delivery anomalies of one run, with the names and meanings of Jepsen's Kafka checker.

:class:`Delivery` follows the facts of clients and coordinators during the run. At the end it
compares them with the final log of each partition's leader. The Spark checks of
``analysis/checks`` find the same anomalies from the trace alone; a test compares the two, and
what they excuse.

Every offset of a user topic holds one record or a transaction marker until a cleaner removes it,
and Jepsen's *index* is an offset here.
The History's contents tell the offsets without a record for
a reader.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

from kafkasim.analysis.judging.copies.overtaken import Overtaken
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.group_members import Excuses, lost_group
from kafkasim.analysis.judging.history.footing import Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.holes import Place as At
from kafkasim.analysis.judging.invariants.traced import offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.order import ReadingOrder
from kafkasim.analysis.judging.readers.passed import Passed, Place, ProcessedRanges, Stalled
from kafkasim.analysis.judging.readers.recreated.carried import CarriedOver
from kafkasim.analysis.judging.readers.removed_offsets import DeletedOffsets
from kafkasim.analysis.judging.source import (
    UNCLEAN,
    Loss,
    PartitionKey,
    acknowledged,
    deleted_below,
    final_leaders,
)
from kafkasim.model import facts

FROM_RECORDS = ("lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-send")
"""Anomalies that a loss in the partition itself explains, at the lost offsets and at no others.

Lost records free their offsets for others, and a reader that is past them gets none of these."""

FROM_POSITIONS = ("duplicate", "skipped-by-commit", "offset-regression")
"""Anomalies of a group that a loss explains if the group was reset afterwards.

Its position was among the lost records, so auto.offset.reset has moved it."""

FROM_ORDER = ("poll-skip", "nonmonotonic-poll")
"""Anomalies of a reader that an unclean election explains, and no other loss."""

FROM_OFFSETS = (
    "duplicate", "unseen", "skipped-by-commit", "offset-regression", "application-failed",
)  # fmt: skip
"""Anomalies that an earlier loss in the group's partition of __consumer_offsets explains.

The group then starts from an older commit, or from where auto.offset.reset sends it; a consumer
group (KIP-848) may be gone. Other failures of applications concern no group, and have no excuse."""

CAUSED = (*FROM_RECORDS, *FROM_ORDER)
"""Anomalies that a scenario may permit only where the trace shows a cause (:class:`Finding`)."""

RESETS = ("earliest", "latest", "truncation")
"""Why a consumer's position is set to another one than its group has committed."""

AT_END = 1 << 62
"""The row of what only the final logs show."""

WEAK = "acks"
"""The cause of what happens to records that were acknowledged with acks=0 or 1."""

NOWHERE: PartitionKey = ("", -1)
"""The place of an anomaly that concerns no partition."""


@dataclass(frozen=True, slots=True)
class _Noted:
    """One occurrence of an anomaly, and what decides whether a loss explains it."""

    detail: str
    seq: int  # the row that shows it
    offset: int = -1  # of the record concerned; −1 unknown, or of no single record
    record_id: int = -1
    promise: int = -1  # the row that promised what is broken; −1: any time before
    batch_us: int | None = None  # when the producer began the batch of a lost record
    weak: bool = False  # acks=0 or 1


class Delivery:
    """Follows one run; :meth:`finish` returns its anomalies."""

    def __init__(self, trace: FactSource, history: History) -> None:
        self._losses = history.losses
        self._holes = self.holes = history.contents
        self._transactions = history.transactions
        self._footing = history.footing
        self._entered = history.holes
        self._taken: dict[tuple[PartitionKey, int], tuple[Spot, int]] = {}
        """By partition and record id: what its epoch rests on, and the producer id"""
        self._acked: dict[PartitionKey, list[tuple[int, facts.Acked]]] = {}  # with the time in µs
        # Per producer and epoch, the last (record id, offset). After a failed batch a producer
        # raises the epoch and sends in-flight batches again, maybe behind later ones (KIP-360).
        self._sent: dict[tuple[str, PartitionKey, int, int], tuple[int, int]] = {}
        self._processors: dict[str, None] = {}  # hosts: their records have the ids of inputs
        self._values: dict[PartitionKey, dict[int, int]] = {}
        # By offset: the row in which the group got it last, and how often if it was twice or more.
        self._delivered: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        self._repeated: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        self._processed = ProcessedRanges()
        self._order = ReadingOrder(trace, self._holes, self._note)
        self._first: dict[tuple[str, PartitionKey], int] = {}
        self._groups: dict[PartitionKey, dict[str, None]] = {}  # who has had a position in it
        # The highest reset to latest, which skips all below, and the row of the last reset.
        self._reset: dict[tuple[str, PartitionKey], int] = {}
        self._reset_seq: dict[tuple[str, PartitionKey], int] = {}
        # The last by topic name, with its row and the id of its topic; and the last row by id.
        self._committed: dict[Place, tuple[int, facts.OffsetCommitted, str]] = {}
        self._committed_in: dict[Place, int] = {}
        self._carried = CarriedOver(trace)
        self._deletions = DeletedOffsets(trace)
        self._passed = Passed()
        self._leaders = final_leaders(trace)
        self._deleted: dict[str, None] = {}
        self._excuses = Excuses(trace)
        self._overtaken = Overtaken(trace)
        self.stalled = Stalled(trace, self._delivered)
        self._trimmed = deleted_below(trace)
        self._topics: dict[str, facts.TopicCreated] = {}
        self._found: dict[tuple[str, PartitionKey, tuple[str, ...]], list[_Noted]] = {}
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.TopicDeleted, self._on_topic_deleted),
            (facts.Acked, self._on_acked),
            (facts.ProcessorStarted, self._on_processor),
            (facts.Positioned, self._on_positioned),
            (facts.Polled, self._on_polled),
            (facts.Processed, self._processed.on_processed),
            (facts.OffsetCommitted, self._on_committed),
            (facts.ApplicationFailed, self._on_application_failed),
        ):
            trace.subscribe(kind, handler)

    # Following.

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._deleted[fact.topic_id] = None

    def _on_acked(self, seq: int, t: int, node: str, fact: facts.Acked) -> None:
        if fact.topic_id in self._deleted:
            return  # a broker that did not know yet took the record, into a log that is gone
        key = (fact.topic_id, fact.partition)
        self._acked.setdefault(key, []).append((t, fact))
        base = fact.base_offset
        taken = self._take_duplicate(seq, key, fact)
        told = base >= 0 and fact.producer_id >= 0 and not taken
        if not told or node in self._processors or self._overtaken.covers(fact):
            return
        sender = (node, key, fact.producer_id, fact.producer_epoch)
        last = self._sent.get(sender)
        first = fact.record_ids[0]
        if last is not None and (first > last[0]) != (base > last[1]):
            detail = f"{node} record {first} at offset {base}"
            where, weak = min(base, last[1]), fact.acks != -1
            self._note("nonmonotonic-send", key, detail, seq, offset=where, record_id=first,
                       weak=weak)  # fmt: skip
        self._sent[sender] = (fact.record_ids[-1], base + len(fact.record_ids) - 1)

    def _take_duplicate(self, seq: int, key: PartitionKey, fact: facts.Acked) -> bool:
        """Note what is acknowledged in the place of other records: it is not in the log."""
        id_ = self._transactions.ids.get(fact.producer_id, "")
        taken = bool(id_) and self._transactions.took(fact)
        for record_id in fact.record_ids if id_ else ():
            self._taken.pop((key, record_id), None)
            if taken:
                since = self._transactions.epoch_since(id_, fact.producer_id, fact.producer_epoch)
                spot = self._footing.of_id(id_, since, seq)
                self._taken[key, record_id] = (spot, fact.producer_id)
        return taken

    def _on_processor(self, _seq: int, _t: int, node: str, _: facts.ProcessorStarted) -> None:
        self._processors[node] = None

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        key = (fact.topic_id, fact.partition)
        self._order.positioned(fact)
        if fact.reason == "none":
            return
        first = self._first.get((fact.group, key))
        if first is None or fact.offset < first:
            self._first[(fact.group, key)] = fact.offset
            self._groups.setdefault(key, {})[fact.group] = None
        if fact.reason in RESETS:
            self._reset_seq[(fact.group, key)] = seq
        if fact.reason == "latest":
            self._reset[(fact.group, key)] = max(fact.offset, self._reset.get((fact.group, key), 0))

    def _on_polled(self, seq: int, _t: int, node: str, fact: facts.Polled) -> None:
        key = (fact.topic_id, fact.partition)
        self._order.polled(seq, node, fact)
        if not fact.offsets:
            return
        place = (fact.group, key)
        values = self._values.setdefault(key, {})
        delivered = self._delivered.setdefault(place, {})
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            if values.setdefault(offset, record_id) != record_id:
                detail = f"offset {offset} has two values"
                self._note(
                    "inconsistent-offsets", key, detail, seq, offset=offset, record_id=record_id
                )
            if offset in delivered:
                repeated = self._repeated.setdefault(place, {})
                repeated[offset] = repeated.get(offset, 1) + 1
            delivered[offset] = seq

    def delivered(self, group: str, key: PartitionKey) -> Container[int]:
        """Return the offsets that a group got."""
        return self._delivered.get((group, key), ())

    def _on_committed(self, seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        name, of = (fact.group, fact.topic, fact.partition), self._carried.topic_of(fact)
        since, before, other = self._committed.get(name, (-1, fact, of))
        self._committed[name] = (seq, fact, of)
        if of:
            self._passed.add((fact.group, of, fact.partition), fact.offset, seq)
            self._committed_in[fact.group, of, fact.partition] = seq
        cover = self._deletions.cover
        back = fact.offset < before.offset and of == other != ""
        if back and not (cover(since, before) or cover(seq, fact)):
            key, last = (of, fact.partition), before.offset
            told = f"group {fact.group} committed {fact.offset} after {last} (client-caused)"
            self._note("offset-regression", key, told, seq, fact.group, promise=since)

    def _on_application_failed(
        self, seq: int, _t: int, node: str, fact: facts.ApplicationFailed
    ) -> None:
        """A group that its coordinator has lost ends the consumers of group.protocol=consumer."""
        if self._excuses.cover(node, fact):
            return
        raised = f"{fact.exception}: {fact.reason}" if fact.reason else fact.exception
        detail = f"{node}: {raised} in {fact.task}"
        self._note("application-failed", NOWHERE, detail, seq, *lost_group(fact.reason))

    def _note(
        self,
        name: str,
        key: PartitionKey,
        detail: str,
        seq: int,
        *groups: str,
        offset: int = -1,
        record_id: int = -1,
        promise: int = -1,
        batch_us: int | None = None,
        weak: bool = False,
    ) -> None:
        noted = _Noted(detail, seq, offset, record_id, promise, batch_us, weak)
        self._found.setdefault((name, key, groups), []).append(noted)

    # Excuses.

    def _explained(
        self, name: str, key: PartitionKey, groups: Sequence[str], noted: _Noted
    ) -> tuple[str, str]:
        """Return why an anomaly is expected, or "", and its cause, or "".

        The records concerned were lost; or a group's position was, and auto.offset.reset sent it
        back; or an epoch, or a sequence, was given twice; or all groups had ended; or each has a
        reason: its offsets partition lost records before, or it waited in an excused stall.
        """
        reasons = [
            loss.reason
            for loss in self._losses(key)
            if self._explains(loss, name, key, groups, noted)
        ]
        legal = [reason for reason in reasons if reason != UNCLEAN]
        if name in FROM_OFFSETS and not legal:
            kept = [self._commits_lost(group, noted) for group in groups]
            if name == "unseen":
                held = [self.stalled.excuse(group, key, noted.offset) for group in groups]
                kept = [lost or stall for lost, stall in zip(kept, held, strict=True)]
            legal = kept if all(kept) else []
        other = ""
        if name == "lost-write" and not legal:
            spot, producer_id = self._taken.get((key, noted.record_id), (None, -1))
            if spot is not None:  # the epoch was given twice, or the sequence
                other = self._footing.lost([spot]) or self._entered.covering(
                    "lost-write", At(*key, producer_id=producer_id)
                )
        elif name == "unseen" and not legal:
            other = self.stalled.ended.excuse(groups, key, noted.offset)
        cause = reasons[0] if reasons else WEAK if noted.weak else ""
        return legal[0] if legal else other, cause

    def _explains(
        self, loss: Loss, name: str, key: PartitionKey, groups: Sequence[str], noted: _Noted
    ) -> bool:
        """Return whether a loss explains an anomaly. Nothing is explained by what came later."""
        if name in FROM_RECORDS:
            begun = noted.batch_us < loss.t_us if noted.batch_us is not None else True
            return begun and loss.covers(noted.offset) and loss.seq < noted.seq
        if name in FROM_POSITIONS and groups:
            reset = self._reset_seq.get((groups[0], key), -1)
            return loss.seq < reset and loss.seq < noted.seq
        return name in FROM_ORDER and loss.reason == UNCLEAN and loss.seq < noted.seq

    def _commits_lost(self, group: str, noted: _Noted) -> str:
        """Return why a group's offsets partition lost records meanwhile, or ""."""
        losses = self._losses(offsets_partition(group, self._topics, self._excuses.in_zookeeper))
        between = [loss.reason for loss in losses if noted.promise < loss.seq < noted.seq]
        return next((reason for reason in between if reason != UNCLEAN), "")

    # Judging.

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by name and partition."""
        for key, leader in self._leaders.items():
            self._judge_log(key, leader)
        for (group, key), delivered in self._delivered.items():
            repeated = self._repeated.get((group, key), {})
            for offset in [each for each in delivered if each in repeated]:
                detail = f"group {group} got offset {offset} {repeated[offset]} times"
                last = delivered[offset]
                self._note("duplicate", key, detail, last, group, offset=offset)
        self._judge_commits()
        found: dict[tuple[str, PartitionKey, str, str], list[tuple[_Noted, str]]] = {}
        for (name, key, groups), each in self._found.items():
            for noted in each:
                why = self._explained(name, key, groups, noted)
                group = groups[0] if groups else ""
                found.setdefault((name, key, *why), []).append((noted, group))
        anomalies = []
        for (name, key, excuse, cause), some in sorted(found.items(), key=lambda item: item[0]):
            first, group = some[0]
            seq = -1 if first.seq == AT_END else first.seq
            anomalies.append(
                Finding(name, *key, first.detail, len(some), excuse, first.offset, first.record_id,
                        group, seq, cause=cause)
            )  # fmt: skip
        return anomalies

    def _judge_log(self, key: PartitionKey, leader: facts.FinalReplica) -> None:
        offsets: dict[int, int] = {}
        aborted = self._holes.is_aborted
        for record_id, at in zip(leader.record_ids, self._holes.record_offsets(leader)):
            known = offsets.setdefault(record_id, at)
            if known == at:
                continue
            if aborted(key, known):  # sent again in another transaction
                offsets[record_id] = at
            elif not aborted(key, at):
                detail = f"record {record_id} at offsets {known} and {at} (producer-caused)"
                self._note("duplicate", key, detail, AT_END, offset=at, record_id=record_id)
        log_start = self._log_start(key, leader)
        read = self._values.get(key, {})
        covered = {group: self._start((group, key)) for group in self._groups.get(key, ())}
        for record_id, (offset, at_us, acked) in acknowledged(self._acked.get(key, [])).items():
            found_at, weak = offsets.get(record_id), acked.acks != -1
            if found_at is None:
                if self._holes.was_removed(key, record_id):
                    continue
                if offset < 0 or offset >= log_start:
                    detail = f"record {record_id} acknowledged at {offset}"
                    began = at_us - acked.latency_us
                    self._note("lost-write", key, detail, AT_END, offset=offset, batch_us=began,
                               record_id=record_id, weak=weak)  # fmt: skip
            elif found_at not in read and found_at >= log_start:
                groups = [
                    group
                    for group, first in covered.items()
                    if first <= found_at
                    and self._holes.readable(key, leader, found_at, group)
                    and not self._carried.passed_over(group, key, found_at)
                ]
                if groups:
                    detail = f"record {record_id} at offset {found_at} (late)"
                    self._note(
                        "unseen", key, detail, AT_END, *groups, offset=found_at,
                        record_id=record_id, weak=weak,
                    )  # fmt: skip

    def _log_start(self, key: PartitionKey, leader: facts.FinalReplica) -> int:
        """Return the offset below which records were deleted, also if the leader forgot it."""
        return max(leader.log_start_offset, self._trimmed.get(key, 0))

    def _start(self, reader: tuple[str, PartitionKey]) -> int:
        """Return the offset from which a group must read: a reset to latest skips all below it."""
        return max(self._first[reader], self._reset.get(reader, 0))

    def _judge_commits(self) -> None:
        for place, committed in self._passed.highest():
            group, *_ = place
            key = place[1:]
            leader = self._leaders.get(key)
            if (group, key) not in self._first or leader is None:
                continue
            # Below the log start the records were deleted: a group that lagged skips them.
            position = max(self._start((group, key)), self._log_start(key, leader))
            for low, high in self._processed.gaps((group, key), position, committed):
                self._skipped(place, key, low, high)

    def _skipped(self, place: Place, key: PartitionKey, low: int, high: int) -> None:
        """Note the records that a commit passed. One that was appended later was not passed.

        Nor was one that stands where a member had found nothing, or that lies before where the
        group came from another topic of the name.
        """
        group, last = place[0], self._committed_in[place]
        committed_only = self._holes.was_read_committed(group, key)
        for offset in range(low, high):
            row = self._passed.row(place, offset)
            passed = self._holes.appended(key, offset) < row
            if not passed or self._order.had_nothing(group, key, offset, row):
                continue
            if self._carried.passed_over(group, key, offset, row):
                continue
            if self._holes.holds(key, offset, committed_only, row):
                detail = f"group {group} committed past offset {offset} unprocessed"
                self._note("skipped-by-commit", key, detail, last, group, offset=offset)
