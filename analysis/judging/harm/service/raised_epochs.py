"""EPOCHREASON: an idempotent producer raises its epoch, and numbers batches anew, for a reason.

A producer without a transactional.id raises its epoch by itself when a partition has a gap that no
retry can close, and numbers its in-flight batches from 0 (KIP-360). Each raise costs a refused
request at least, and an id has 32767 epochs. A partition asks for it in five cases, and no others
(TransactionManager of 2.8.0, 3.9.1 and 4.1.0):

- a batch of it was given up: it failed and was surely not appended, or for its sequence or an
  unknown producer id (handleFailedBatch), or it expired and nothing that was acknowledged since
  shows that it had been appended (maybeResolveSequences);
- a leader answers OUT_OF_ORDER_SEQUENCE_NUMBER to the batch behind the last acknowledged one, or
  behind one that expired (canRetry). An honest leader has a gap then: a batch of the partition was
  given up, or a leader had appended one that the next leader lacks, or appended it after that one
  had begun to lead; or a leader that did not know the producer took a later batch first
  (ProducerAppendInfo.checkSequence takes any then);
- a leader that has loaded its log, or cut its end off, answers so to a batch that is in it: of each
  producer a snapshot has the last batch only (ProducerStateManager.writeSnapshot), and the answer
  to an earlier one had been lost;
- an earlier attempt of a batch that was numbered anew had been appended: its acknowledgement makes
  the producer go on at a sequence that the log does not expect in the new epoch;
- a leader answers UNKNOWN_PRODUCER_ID, which none has done since Kafka 2.5 (KIP-360).

So each SequencesRewritten needs such a case in its very partition since the one before, as sends,
logs and elections tell. Of a raise with nothing in flight in that partition the trace tells by the
epoch of later batches alone: an epoch is no higher than the cases so far. A partition that was idle
when another one asked begins at 0 with its next batch (KAFKA-12152); otherwise the leader refuses
that one, and it asks for the next raise without a case of its own. After epoch 32767 comes a new
id, whose epochs begin at 0. Left out: transactional producers, whose epochs the coordinator raises
(``atomicity.py``, needless-epoch).
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from kafkasim.analysis.judging.invariants.traced import TracedCluster
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.records import add_sequence

IN_FLIGHT = 5
"""max.in.flight.requests.per.connection of an idempotent producer, at most"""


@dataclass(slots=True)
class _Batch:
    """A batch that a leader has appended."""

    epoch: int
    record_ids: tuple[int, ...]
    end_offset: int
    answered: bool = False


@dataclass(slots=True)
class _Appended:
    """What leaders have appended of one producer in one partition."""

    epoch: int = -1
    next_sequence: int = 0  # −1: a leader lacks the last batches, and nobody has appended since
    end_offset: int = -1
    batches: deque[_Batch] = field(default_factory=lambda: deque(maxlen=IN_FLIGHT))
    """The last ones"""

    def count_unanswered(self, end_offset: int) -> int:
        """Return how many batches of the epoch below an offset have no answer."""
        return sum(
            each.epoch == self.epoch and not each.answered and each.end_offset <= end_offset
            for each in self.batches
        )


class RaisedEpochs:
    """Compares the epochs of idempotent producers with what became of their batches."""

    def __init__(self, cluster: TracedCluster) -> None:
        self._cluster = cluster
        self._transactional: dict[int, None] = {}  # producer ids
        self._failed: dict[tuple[str, PartitionKey], int] = {}  # the row of a host's last failure
        self._failures: dict[str, int] = {}  # host -> batches that were given up since its start
        self._logs: dict[PartitionKey, dict[int, _Appended]] = {}  # by producer id
        self._leaders: dict[PartitionKey, int] = {}  # the latest leader epoch that has begun
        self._reloaded: dict[tuple[str, PartitionKey], int] = {}
        """By replica: below which offset its producers are from a snapshot, or replayed"""
        self._gaps: dict[tuple[int, PartitionKey], int] = {}  # the row of a log's last gap
        self._cases: dict[int, int] = {}  # producer id -> cases but for failures
        self._rewritten: dict[tuple[int, PartitionKey], tuple[int, facts.SequencesRewritten]] = {}
        self._highest: dict[int, int] = {}  # producer id -> the highest epoch seen
        trace = cluster.trace
        trace.subscribe(facts.TransactionBegun, self._on_transaction)
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.SendFailed, self._on_failed)
        trace.subscribe(facts.Appended, self._on_appended)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.LogLoaded, self._on_loaded)
        trace.subscribe(facts.Truncated, self._on_truncated)
        trace.subscribe(facts.SequencesRewritten, self._on_rewritten)
        trace.subscribe(facts.Acked, self._on_acked)

    # ------------------------------------------------------------------------------- the cases

    def _on_transaction(self, _s: int, _t: int, _n: str, fact: facts.TransactionBegun) -> None:
        self._transactional[fact.producer_id] = None

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._failures.pop(node, None)

    def _on_failed(self, seq: int, _t: int, node: str, fact: facts.SendFailed) -> None:
        if fact.attempts > 0:  # one that was never sent has no sequence
            self._failed[node, (fact.topic_id, fact.partition)] = seq
            self._failures[node] = self._failures.get(node, 0) + 1

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id < 0 or fact.base_sequence < 0:
            return
        key = (fact.topic_id, fact.partition)
        known = self._logs.setdefault(key, {}).setdefault(fact.producer_id, _Appended())
        known.batches.append(_Batch(fact.producer_epoch, fact.record_ids, fact.next_offset))
        is_same_epoch = fact.producer_epoch == known.epoch
        known.epoch = fact.producer_epoch
        if fact.leader_epoch < self._leaders.get(key, 0):  # the present leader lacks it
            if known.next_sequence >= 0 or not is_same_epoch:
                self._note_gap(seq, fact.producer_id, key)
            known.next_sequence = -1
            return
        expected = known.next_sequence if is_same_epoch else 0
        if fact.base_sequence != expected and known.next_sequence >= 0:
            self._note_gap(seq, fact.producer_id, key)
        known.next_sequence = add_sequence(fact.base_sequence, len(fact.record_ids))
        known.end_offset = fact.next_offset

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.LogLoaded) -> None:
        self._reloaded[node, (fact.topic_id, fact.partition)] = fact.log_end_offset

    def _on_truncated(self, _seq: int, _t: int, node: str, fact: facts.Truncated) -> None:
        self._reloaded[node, (fact.topic_id, fact.partition)] = fact.offset

    def _on_leader(self, seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        reloaded = self._reloaded.get((node, key), 0)
        self._leaders[key] = max(fact.leader_epoch, self._leaders.get(key, 0))
        for producer_id, known in self._logs.get(key, {}).items():
            if known.end_offset > fact.start_offset:
                self._note_gap(seq, producer_id, key)
                known.end_offset, known.next_sequence = fact.start_offset, -1
            elif known.count_unanswered(reloaded) > 1:
                self._note_gap(seq, producer_id, key)

    def _note_gap(self, seq: int, producer_id: int, key: PartitionKey) -> None:
        self._gaps[producer_id, key] = seq
        self._cases[producer_id] = self._cases.get(producer_id, 0) + 1

    def _was_appended(self, producer_id: int, key: PartitionKey) -> bool:
        """Return whether the log has a batch by a number that it had before its last one."""
        _, last = self._rewritten[producer_id, key]
        known = self._logs.get(key, {}).get(producer_id, _Appended())
        return any(
            batch.epoch < last.producer_epoch and record_id in last.record_ids
            for batch in known.batches
            for record_id in batch.record_ids
        )

    # ------------------------------------------------------------------------------ the raises

    def _on_rewritten(self, seq: int, t: int, node: str, fact: facts.SequencesRewritten) -> None:
        key = (fact.topic_id, fact.partition)
        place = (fact.producer_id, key)
        since = self._rewritten[place][0] if place in self._rewritten else -1
        case = max(self._failed.get((node, key), -1), self._gaps.get(place, -1))
        if case <= since:
            if since >= 0 and self._was_appended(*place):
                self._cases[fact.producer_id] = self._cases.get(fact.producer_id, 0) + 1
            else:
                self._cluster.violated(
                    "EPOCHREASON", seq, t, key,
                    f"{node} raises its epoch to {fact.producer_epoch} for a gap, though no batch"
                    f" of it was given up or lost here",
                )  # fmt: skip
        self._rewritten[place] = (seq, fact)

    def _on_acked(self, seq: int, t: int, node: str, fact: facts.Acked) -> None:
        producer_id, epoch = fact.producer_id, fact.producer_epoch
        known = self._logs.get((fact.topic_id, fact.partition), {}).get(producer_id)
        for batch in known.batches if known is not None else ():
            batch.answered = batch.answered or batch.record_ids == fact.record_ids
        if epoch <= self._highest.get(producer_id, 0) or producer_id in self._transactional:
            return
        self._highest[producer_id] = epoch
        cases = self._failures.get(node, 0) + self._cases.get(producer_id, 0)
        if epoch > cases:
            self._cluster.violated(
                "EPOCHREASON", seq, t, (fact.topic_id, fact.partition),
                f"{node} uses epoch {epoch} of producer id {producer_id}, though only {cases} of"
                f" its batches were given up or lost",
            )  # fmt: skip
