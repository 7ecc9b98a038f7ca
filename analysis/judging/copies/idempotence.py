"""idempotent-duplicate: an idempotent producer's record is stored twice, although it was sent once.

A batch keeps its producer id, epoch and sequence over all retries, and the leader appends each of
them once (KIP-98, ProducerStateManager). NODUP checks that. This judge checks the guarantee for the
application: one send() leaves one record, outside of aborted transactions, whatever happens to
requests, responses, leaders and epochs. It compares values, so it also sees a batch that the
producer itself has renumbered.

Kafka has one exception. After a gap in a partition the producer raises its epoch and renumbers the
in-flight batches of *that* partition from 0: TransactionManager.bumpIdempotentProducerEpoch
rewrites the partitions with a gap, and no others (KIP-360). One of these batches may be in the log
already, with its response lost. The fact SequencesRewritten names them, and they are excused.
Batches of other partitions keep their epoch and sequence until no batch is in flight there
(maybeUpdateProducerIdAndEpoch, KAFKA-5494).

There is no other excuse. A log that loses its tail loses the copy with it, and the producer state
follows from the log. A leader that has forgotten the producer (producer.id.expiration.ms) appends
the same sequence again; NODUP judges that.

The judge must know which records were sent once. Producers of a workload give each send() a value
of its own. Hosts that read do not: a processor writes an input's value each time that it gets the
input, and a dead letter has the value of its record. Topics that such hosts write are not judged.
"""

from __future__ import annotations

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, final_leaders
from kafkasim.model import facts

REWRITTEN = "rewritten-sequences"
"""The excuse of a batch that was numbered anew after a gap in its own partition."""


class Idempotence:
    """Follows one run; :meth:`finish` returns the anomalies of each partition.

    Of a log without copies nothing is kept.
    """

    def __init__(self, trace: FactSource, holes: Contents) -> None:
        self._holes = holes
        self._topics: dict[str, str] = {}  # topic id -> name
        self._readers: dict[str, None] = {}  # hosts
        self._passed_on: dict[str, None] = {}  # ids or names of the topics that such hosts write
        self._rewritten: dict[PartitionKey, dict[int, None]] = {}  # record ids
        self._leaders = final_leaders(trace)
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.ProcessorStarted, self._on_processor)
        trace.subscribe(facts.Acked, self._on_sent)
        trace.subscribe(facts.SendFailed, self._on_sent)
        trace.subscribe(facts.SequencesRewritten, self._on_rewritten)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_positioned(self, _seq: int, _t: int, node: str, _: facts.Positioned) -> None:
        self._readers[node] = None

    def _on_processor(self, _seq: int, _t: int, _node: str, fact: facts.ProcessorStarted) -> None:
        self._passed_on[fact.topic] = None

    def _on_sent(self, _seq: int, _t: int, node: str, fact: facts.Acked | facts.SendFailed) -> None:
        if node in self._readers:
            self._passed_on[fact.topic_id] = None

    def _on_rewritten(self, _seq: int, _t: int, _node: str, fact: facts.SequencesRewritten) -> None:
        known = self._rewritten.setdefault((fact.topic_id, fact.partition), {})
        known.update(dict.fromkeys(fact.record_ids))

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, sorted by partition."""
        found = []
        for key, leader in sorted(self._leaders.items(), key=lambda each: each[0]):
            passed_on = key[0] in self._passed_on or self._topics.get(key[0]) in self._passed_on
            if passed_on or len(dict.fromkeys(leader.record_ids)) == len(leader.record_ids):
                continue
            twice = self._twice(key, leader)
            rewritten = self._rewritten.get(key, {})
            for excuse in ("", REWRITTEN):
                some = [each for each in twice if (each[0] in rewritten) == bool(excuse)]
                if some:
                    record_id, first, second = some[0]
                    detail = f"record {record_id} was sent once, and is at {first} and {second}"
                    found.append(
                        Finding("idempotent-duplicate", *key, detail, len(some), excuse,
                                offset=second, record_id=record_id)
                    )  # fmt: skip
        return found

    def _twice(self, key: PartitionKey, leader: facts.FinalReplica) -> list[tuple[int, int, int]]:
        """Return (record id, first offset, second one) of the records that are stored twice."""
        idempotent = [
            producer_id >= 0
            for producer_id, count in zip(leader.producer_ids, leader.record_counts)
            for _ in range(count)
        ]
        offsets: dict[int, list[int]] = {}
        at = self._holes.record_offsets(leader)
        for record_id, offset, counts in zip(leader.record_ids, at, idempotent):
            if counts:
                offsets.setdefault(record_id, []).append(offset)
        found = []
        for record_id, each in offsets.items():
            if len(each) > 1:
                stored = [offset for offset in each if not self._holes.is_aborted(key, offset)]
                if len(stored) > 1:
                    found.append((record_id, stored[0], stored[1]))
        return found
