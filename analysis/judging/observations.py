"""Observations about groups, transactions and coordinators; see ``language/vocabulary.py``.

An observation says that something was seen, without a judgement: ``must-see`` and ``never`` of a
scenario name it.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.transaction.metadata import is_epoch_exhausted

LAGGING = 200
"""How many records behind the high watermark a group lags."""

LONG_LOAD_US = 1_000_000
"""From this time on between its election and its service a coordinator's load counts as long."""

COORDINATED = {"__consumer_offsets": "groups", "__transaction_state": "transactions"}


class LoadObserver:
    """Tells ``note(observation, µs)`` of coordinators that took long to load their partition."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._note = note
        self._topics: dict[str, str] = {}  # topic id -> what its leaders coordinate
        self._elected: dict[tuple[str, str, int, int], int] = {}  # µs
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.BecameLeader, self._on_leader)
        trace.subscribe(facts.CoordinatorLoaded, self._on_groups)
        trace.subscribe(facts.TransactionsLoaded, self._on_transactions)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic in COORDINATED:
            self._topics[fact.topic_id] = COORDINATED[fact.topic]

    def _on_leader(self, _seq: int, t_us: int, node: str, fact: facts.BecameLeader) -> None:
        kind = self._topics.get(fact.topic_id)
        if kind is not None:
            self._elected[node, kind, fact.partition, fact.leader_epoch] = t_us

    def _on_groups(self, _s: int, t_us: int, node: str, fact: facts.CoordinatorLoaded) -> None:
        self._loaded(t_us, (node, "groups", fact.partition, fact.leader_epoch), fact.loaded)

    def _on_transactions(
        self, _seq: int, t_us: int, node: str, fact: facts.TransactionsLoaded
    ) -> None:
        self._loaded(t_us, (node, "transactions", fact.partition, fact.leader_epoch), fact.loaded)

    def _loaded(self, t_us: int, place: tuple[str, str, int, int], loaded: bool) -> None:
        since = self._elected.pop(place, t_us)
        if loaded and t_us - since >= LONG_LOAD_US:
            self._note(f"long-load:{place[1]}", t_us)


class LagObserver:
    """Tells ``note(observation, µs)`` what a run shows of lag.

    A group has caught up with the leader's high watermark of that moment, not with the one that it
    knows. These are many facts, so they are followed from the first lag on.
    """

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._note = note
        self._trace = trace
        self._lagging: dict[tuple[str, PartitionKey], None] = {}
        self._high_watermarks: dict[PartitionKey, int] = {}
        trace.subscribe(facts.Polled, self._on_polled)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        behind = fact.high_watermark - fact.position >= LAGGING
        if not behind and not self._lagging:
            return
        key = (fact.topic_id, fact.partition)
        place = (fact.group, key)
        if behind:
            if not self._high_watermarks:
                self._trace.subscribe(facts.HighWatermark, self._on_high_watermark)
            self._high_watermarks.setdefault(key, fact.high_watermark)
            self._lagging[place] = None
            self._note("lagging", t_us)
        elif place in self._lagging and fact.position >= self._high_watermarks[key]:
            del self._lagging[place]
            self._note("caught-up", t_us)

    def _on_high_watermark(self, _s: int, _t: int, _n: str, fact: facts.HighWatermark) -> None:
        self._high_watermarks[fact.topic_id, fact.partition] = fact.high_watermark


class OldConsumerObserver:
    """Tells ``note(observation, µs)`` of conflicts, failed rebalances and zombies."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._trace = trace
        self._note = note
        self._topics: dict[str, str] = {}  # id -> name
        self._owner: dict[tuple[str, str, int], str] = {}  # the last to claim a partition
        self._generation: dict[str, int] = {}  # group -> the highest
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionOwner, self._on_owner)
        trace.subscribe(facts.RebalanceAttempt, self._on_attempt)

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic

    def _on_owner(self, _seq: int, t_us: int, _node: str, fact: facts.PartitionOwner) -> None:
        if not self._owner:
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._trace.subscribe(facts.Rebalanced, self._on_rebalanced)
        if fact.event == "claimed":
            self._owner[fact.group, fact.topic, fact.partition] = fact.member_id
        elif fact.event == "conflict":
            self._note("owner-conflict", t_us)

    def _on_attempt(self, _seq: int, t_us: int, _node: str, fact: facts.RebalanceAttempt) -> None:
        if fact.outcome == "gave-up":
            self._note("rebalance-given-up", t_us)

    def _on_rebalanced(self, _seq: int, t_us: int, _node: str, fact: facts.Rebalanced) -> None:
        known = self._generation.get(fact.group)
        if known is not None and fact.generation > known:
            self._note("rebalance", t_us)
        self._generation[fact.group] = max(known or 0, fact.generation)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        place = (fact.group, self._topics.get(fact.topic_id, ""), fact.partition)
        if fact.offsets and self._owner.get(place, fact.member_id) != fact.member_id:
            self._note("zombie-poll", t_us)


LONG_US = 1_000_000
"""From this age on an open transaction counts as long."""

OUTCOMES = {
    "committed": "transaction-committed",
    "aborted": "transaction-aborted",
    "fenced": "producer-fenced",
}


class TransactionObserver:
    """Tells ``note(observation, µs)`` what a run shows of transactions."""

    def __init__(self, trace: FactSource, note: Callable[[str, int], None]) -> None:
        self._note = note
        self._trace = trace
        self._coordinators: dict[str, str] = {}  # transactional id -> node
        self._last: dict[str, tuple[int, int]] = {}  # its last producer id and epoch
        self._transactional: dict[int, None] = {}  # producer ids
        self._open: dict[tuple[PartitionKey, int], int] = {}  # the time of the first append, in µs
        self._records: dict[PartitionKey, dict[int, int]] = {}  # open: record id -> producer id
        trace.subscribe(facts.TransactionBegun, self._on_begun)
        trace.subscribe(facts.TransactionEnded, self._on_ended)
        trace.subscribe(facts.TransactionState, self._on_state)
        trace.subscribe(facts.MarkerWritten, self._on_marker)

    def _on_begun(self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        if not self._transactional:
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.Polled, self._on_polled)
        self._transactional[fact.producer_id] = None

    def _on_ended(self, _seq: int, t_us: int, _node: str, fact: facts.TransactionEnded) -> None:
        name = OUTCOMES.get(fact.outcome)
        if name is not None:
            self._note(name, t_us)

    def _on_state(self, _seq: int, t_us: int, node: str, fact: facts.TransactionState) -> None:
        if fact.reason == "timeout":
            self._note("transaction-timed-out", t_us)
        if self._coordinators.setdefault(fact.transactional_id, node) != node:
            self._coordinators[fact.transactional_id] = node
            self._note("transaction-coordinator-moved", t_us)
        producer = (fact.producer_id, fact.producer_epoch)
        last = self._last.get(fact.transactional_id, producer)
        self._last[fact.transactional_id] = producer
        if last[0] != producer[0] and is_epoch_exhausted(last[1]):
            self._note("producer-id-rotated", t_us)

    def _on_appended(self, _seq: int, t_us: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id in self._transactional and fact.record_ids:
            key = (fact.topic_id, fact.partition)
            self._open.setdefault((key, fact.producer_id), t_us)
            known = self._records.setdefault(key, {})
            known.update(dict.fromkeys(fact.record_ids, fact.producer_id))

    def _on_marker(self, _seq: int, t_us: int, _node: str, fact: facts.MarkerWritten) -> None:
        key = (fact.topic_id, fact.partition)
        since = self._open.pop((key, fact.producer_id), t_us)
        known = self._records.get(key, {})
        for record_id in [each for each, owner in known.items() if owner == fact.producer_id]:
            del known[record_id]
        if t_us - since >= LONG_US:
            self._note("long-transaction", t_us)

    def _on_polled(self, _seq: int, t_us: int, _node: str, fact: facts.Polled) -> None:
        known = self._records.get((fact.topic_id, fact.partition))
        if known and any(record_id in known for record_id in fact.record_ids):
            self._note("open-transaction-read", t_us)
