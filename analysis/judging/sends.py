"""What producers are promised of their sends: each record once, and in order (KIP-98)."""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import ABORTED
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import LEADER_ACKS, UNCLEAN, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import record

REWRITTEN = "rewritten-sequences"
"""The hole of a batch that was numbered anew after a gap in its own partition (KIP-360)."""


class SendOrder:
    """nonmonotonic-send: an idempotent producer's batches are in the log in the order of its sends.

    After a failed batch a producer raises its epoch and sends in-flight batches again, possibly
    behind later ones (KIP-360), so each epoch is judged by itself. Where a replica has begun its
    log anew, its leader has forgotten the producers, and takes a batch that a later one has
    overtaken (UnifiedLog.truncateFullyAndStartAt): not judged from then on. Records of hosts that
    process have the ids of their inputs, in whatever order these came.
    """

    def __init__(self, trace: FactSource, history: History) -> None:
        self._history = history
        self._processors: dict[str, None] = {}  # hosts
        self._reset: dict[PartitionKey, None] = {}
        self._sent: dict[tuple[str, PartitionKey, int, int], tuple[int, int]] = {}
        """By node, partition, producer id and epoch: the last record id and offset"""
        self._found: list[Finding] = []
        follow(trace, self)

    def on_ProcessorStarted(
        self, _seq: int, _t: int, node: str, _fact: facts.ProcessorStarted
    ) -> None:
        """Take a processor."""
        self._processors[node] = None

    def on_LogStart(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        """Take a log that begins anew."""
        if fact.reason == "reset" and fact.offset > 0:
            self._reset[fact.topic_id, fact.partition] = None

    def on_Acked(self, seq: int, t: int, node: str, fact: facts.Acked) -> None:
        """Judge a batch against the one before."""
        key, base = (fact.topic_id, fact.partition), fact.base_offset
        if base < 0 or fact.producer_id < 0 or node in self._processors or key in self._reset:
            return
        if fact.topic_id in self._history.deleted_topics or self._history.transactions.took(fact):
            return
        sender = (node, key, fact.producer_id, fact.producer_epoch)
        last, first = self._sent.get(sender), fact.record_ids[0]
        self._sent[sender] = (fact.record_ids[-1], base + len(fact.record_ids) - 1)
        if last is None or (first > last[0]) == (base > last[1]):
            return
        where, text = min(base, last[1]), f"{record(first)} at offset {base}"
        why = self._history.footing.of_record(key, where, seq)
        legal = [reason for reason in why if reason != UNCLEAN]
        cause = why[0] if why else LEADER_ACKS if fact.acks != -1 else ""
        self._found.append(
            Finding("nonmonotonic-send", *key, text, 1, "".join(legal[:1]), where, first,
                    seq=seq, t_us=t, cause=cause)
        )  # fmt: skip

    def finish(self) -> list[Finding]:
        """Return a finding for each batch."""
        return self._found


class StoredOnce:
    """idempotent-duplicate: an idempotent producer's record that was sent once is stored once.

    A batch keeps its producer id, epoch and sequence over all retries, and the leader appends each
    of them once (ProducerStateManager). NODUP checks that. This checks the guarantee for the
    application: one send() leaves one record, outside of aborted transactions. It compares values,
    so it also sees a batch that the producer itself has renumbered.

    After a gap in a partition the producer raises its epoch and renumbers the in-flight batches of
    that partition (TransactionManager.bumpIdempotentProducerEpoch, KIP-360). One of these may be in
    the log already, with its response lost. The fact SequencesRewritten names them.

    Hosts that read write an input's value each time that they get it: topics that they write are
    not judged.
    """

    def __init__(self, trace: FactSource, history: History) -> None:
        self._history = history
        self._readers: dict[str, None] = {}  # hosts
        self._passed_on: dict[str, None] = {}  # ids or names of the topics that such hosts write
        self._rewritten: dict[tuple[PartitionKey, int], None] = {}  # with record ids
        follow(trace, self)

    def on_Positioned(self, _seq: int, _t: int, node: str, _fact: facts.Positioned) -> None:
        """Take a host that reads."""
        self._readers[node] = None

    def on_ProcessorStarted(
        self, _seq: int, _t: int, _node: str, fact: facts.ProcessorStarted
    ) -> None:
        """Take a topic that such a host writes."""
        self._passed_on[fact.topic] = None

    def on_Acked(self, _seq: int, _t: int, node: str, fact: facts.Acked) -> None:
        """Take what such a host writes."""
        if node in self._readers:
            self._passed_on[fact.topic_id] = None

    def on_SendFailed(self, _seq: int, _t: int, node: str, fact: facts.SendFailed) -> None:
        """Take what such a host writes."""
        if node in self._readers:
            self._passed_on[fact.topic_id] = None

    def on_SequencesRewritten(
        self, _seq: int, _t: int, _node: str, fact: facts.SequencesRewritten
    ) -> None:
        """Take batches that were numbered anew."""
        key = (fact.topic_id, fact.partition)
        self._rewritten |= dict.fromkeys((key, each) for each in fact.record_ids)

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        contents, topics = self._history.contents, self._history.topics
        found = []
        for key, leader in sorted(contents.leaders.items(), key=lambda each: each[0]):
            name = topics[key[0]].topic if key[0] in topics else ""
            if key[0] in self._passed_on or name in self._passed_on:
                continue
            if len(dict.fromkeys(leader.record_ids)) == len(leader.record_ids):
                continue
            for record_id, first, second in self._twice(key, leader):
                why = REWRITTEN if (key, record_id) in self._rewritten else ""
                text = f"{record(record_id)} was sent once, and is at {first} and {second}"
                found.append(Finding("idempotent-duplicate", *key, text, 1, why, second, record_id))
        return found

    def _twice(
        self, key: PartitionKey, leader: facts.FinalReplica
    ) -> Iterator[tuple[int, int, int]]:
        """Yield (record id, first offset, second one) of the records that are stored twice."""
        producers = [
            producer_id
            for producer_id, count in zip(leader.producer_ids, leader.record_counts)
            for _ in range(count)
        ]
        by = dict(zip(self._history.contents.record_offsets(leader), producers))
        offsets: dict[int, list[int]] = {}
        for offset, record_id, state in self._history.contents.states(key):
            if by[offset] >= 0 and state != ABORTED:
                offsets.setdefault(record_id, []).append(offset)
        for record_id, each in offsets.items():
            if len(each) > 1:
                first, second = sorted(each)[:2]
                yield record_id, first, second


class KeyOrder:
    """reordered-key: the records of each key are in the order in which their producer sent them.

    All records of a key are in one partition, so a consumer gets them in the order of the log. This
    is the order of the sends if no batch overtakes an earlier one: with one request in flight, or
    with an idempotent producer. Kafka promises no order between two starts of a producer. Of copies
    of a record the first one counts. Only workloads with ``key-order`` tell their keys, and nothing
    excuses the anomaly: a scenario permits it, because its producer is configured so.
    """

    def __init__(self, trace: FactSource, history: History) -> None:
        self._contents = history.contents
        self._keys: dict[int, tuple[int, str]] = {}  # record id -> (first of its producer, key)
        follow(trace, self)

    def on_KeySent(self, _seq: int, _t: int, _node: str, fact: facts.KeySent) -> None:
        """Take a record's key."""
        self._keys[fact.record_id] = (fact.since, fact.key)

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        found = []
        for key in sorted(self._contents.leaders) if self._keys else ():
            start = self._contents.leaders[key].log_start_offset
            last: dict[tuple[int, str], int] = {}
            seen: dict[int, None] = {}
            for offset, record_id, state in sorted(self._contents.states(key)):
                sent = self._keys.get(record_id)
                if sent is None or record_id in seen or offset < start or state == ABORTED:
                    continue
                seen[record_id] = None
                before = last.get(sent, -1)
                if record_id < before:
                    text = f"{record(record_id)} with the key {sent[1]} at offset {offset} is"
                    text = f"{text} behind {record(before)}"
                    found.append(
                        Finding("reordered-key", *key, text, offset=offset, record_id=record_id)
                    )
                last[sent] = max(before, record_id)
        return found
