"""Offsets that a failed transaction left to the next one: input committed without its output.

A client keeps the offsets of a TxnOffsetCommit in TransactionManager.pendingTxnOffsetCommits until
a broker has taken them. If the transaction fails while the request waits for a retry, nextRequest
fails the request and leaves the map as it is. The next sendOffsetsToTransaction puts its own
offsets into the same map (txnOffsetCommitHandler), and its transaction commits all of them
(``model/KAFKA.md``, 4.4, hole 3). The outputs of the failed transaction stay aborted.

:class:`CarriedOffsets` explains a lost output only if the trace shows each of these steps. Two of
them show in the brokers' logs. The request of the later transaction had more offsets than the
application gave it, so a coordinator that merely forgets to drop aborted offsets is not excused.
And the request of the failed transaction had no answer: no coordinator had appended it, or a batch
of the producer failed while sendOffsetsToTransaction had not returned. Left out: a request that was
appended, in a transaction that failed by something else than a batch.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.analysis.judging.invariants.traced import coordinator_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

CARRIED = "carried-offsets"
"""The excuse of what :class:`CarriedOffsets` explains."""

Place = tuple[str, str, int]
"""Group, topic and partition."""


@dataclass(slots=True)
class _Transaction:
    """A transaction of a producer, as far as its offsets need it."""

    node: str
    carried: dict[Place, dict[int, _Transaction]]
    """What it may send besides its own: by place and offset, the failed transaction"""
    sent: dict[int, None] = field(default_factory=dict)  # record ids
    offsets: dict[Place, int] = field(default_factory=dict)
    appended: dict[tuple[PartitionKey, int], int] = field(default_factory=dict)
    """By partition of ``__consumer_offsets`` and base offset, the records of its batches there"""
    asked: str = ""  # the first end that the application asked for: commit or abort
    failed: bool = False  # a batch failed between its offsets and the end that was asked for
    aborted: bool = False

    @property
    def waited(self) -> bool:
        """Return whether it was to be aborted before its TxnOffsetCommit had an answer."""
        return self.asked == "abort" and (self.failed or not self.appended)

    def leaves(self) -> dict[Place, dict[int, _Transaction]]:
        """Return what the client may still have in pendingTxnOffsetCommits behind it."""
        if not self.offsets:
            return self.carried
        if not self.waited or not self.aborted:
            return {}
        left = {place: dict(offsets) for place, offsets in self.carried.items()}
        for place, offset in self.offsets.items():
            left.setdefault(place, {})[offset] = self
        return left


class CarriedOffsets:
    """Follows the offsets of transactional producers, from the first processor on.

    A transaction that had begun before is no processor's.
    """

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._follows = False
        self._topics: dict[str, facts.TopicCreated] = {}
        self._now: dict[tuple[str, str], _Transaction] = {}  # by node and transactional id
        self._by_id: dict[int, _Transaction] = {}  # the last transaction of each producer id
        self._marked: dict[tuple[PartitionKey, int], _Transaction] = {}
        """By partition and offset of a commit marker, the transaction whose batch it follows"""
        self._open: dict[tuple[PartitionKey, int], list[tuple[int, _Transaction]]] = {}
        """By partition and producer id, base offset and transaction of the batches since a marker
        """
        self._committed: dict[Place, int] = {}
        self._stale: dict[Place, list[tuple[int, int, _Transaction]]] = {}
        """By place: the offset committed before, the carried one, the transaction that left it"""
        self._kept: dict[int, None] = {}  # record ids of committed transactions
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.ProcessorStarted, self._on_processor)

    def excuse(self, place: Place, offset: int, record_id: int) -> str:
        """Return :data:`CARRIED` if an input was committed by an offset that was left over."""
        if record_id in self._kept:
            return ""
        for low, high, left in self._stale.get(place, []):
            if low <= offset < high and record_id in left.sent:
                return CARRIED
        return ""

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact

    def _on_processor(self, _seq: int, _t: int, _node: str, _fact: facts.ProcessorStarted) -> None:
        if self._follows:
            return
        self._follows = True
        self._trace.subscribe(facts.TransactionBegun, self._on_begun)
        self._trace.subscribe(facts.TransactionSent, self._on_sent)
        self._trace.subscribe(facts.TransactionOffsets, self._on_offsets)
        self._trace.subscribe(facts.TransactionEnding, self._on_ending)
        self._trace.subscribe(facts.TransactionEnded, self._on_ended)
        self._trace.subscribe(facts.SendFailed, self._on_failed)
        self._trace.subscribe(facts.Appended, self._on_appended)
        self._trace.subscribe(facts.MarkerWritten, self._on_marker)
        self._trace.subscribe(facts.OffsetCommitted, self._on_committed)

    def _on_begun(self, _seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        before = self._now.get((node, fact.transactional_id))
        own = before is not None and fact.number > 0  # of the same producer object
        now = _Transaction(node, before.leaves() if before is not None and own else {})
        self._now[node, fact.transactional_id] = self._by_id[fact.producer_id] = now

    def _on_sent(self, _seq: int, _t: int, node: str, fact: facts.TransactionSent) -> None:
        now = self._now.get((node, fact.transactional_id))
        if now is not None:
            now.sent[fact.record_id] = None

    def _on_offsets(self, _seq: int, _t: int, node: str, fact: facts.TransactionOffsets) -> None:
        now = self._now.get((node, fact.transactional_id))
        if now is not None:
            now.offsets[fact.group, fact.topic, fact.partition] = fact.offset

    def _on_ending(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnding) -> None:
        now = self._now.get((node, fact.transactional_id))
        if now is not None:
            now.asked = now.asked or ("commit" if fact.committing else "abort")

    def _on_ended(self, _seq: int, _t: int, node: str, fact: facts.TransactionEnded) -> None:
        now = self._now.get((node, fact.transactional_id))
        if now is None:
            return
        now.aborted = fact.outcome == "aborted"
        if fact.outcome == "committed":
            self._kept.update(now.sent)
            now.sent.clear()

    def _on_failed(self, _seq: int, _t: int, node: str, _fact: facts.SendFailed) -> None:
        for now in self._now.values():
            if now.node == node and now.offsets and not now.asked:
                now.failed = True

    def _on_appended(self, _seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        now = self._by_id.get(fact.producer_id)
        created = self._topics.get(fact.topic_id)
        if now is None or created is None or created.topic != "__consumer_offsets":
            return
        key = (fact.topic_id, fact.partition)
        now.appended[key, fact.base_offset] = fact.next_offset - fact.base_offset
        self._open.setdefault((key, fact.producer_id), []).append((fact.base_offset, now))

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        """Find the transaction that a marker ends; the row before told of the marker's batch."""
        key = (fact.topic_id, fact.partition)
        batches = self._open.pop((key, fact.producer_id), [])
        if batches:
            offset, now = batches.pop()
            now.appended.pop((key, offset))
        if batches and fact.committed:
            self._marked[key, fact.offset + 1] = batches[-1][1]

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        place = (fact.group, fact.topic, fact.partition)
        low = self._committed.get(place, -1)
        self._committed[place] = fact.offset
        home = coordinator_partition("__consumer_offsets", fact.group, self._topics)
        of = self._marked.get((home, fact.next_offset))
        if of is None or place in of.offsets:
            return
        left = of.carried.get(place, {}).get(fact.offset)
        sizes = [size for (key, _), size in of.appended.items() if key == home]
        if left is not None and max(sizes) > len(of.offsets):
            self._stale.setdefault(place, []).append((low, fact.offset, left))
