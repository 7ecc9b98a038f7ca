"""The topics of a cluster, the last change of each of their partitions, and who writes there."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence

from kafkasim.analysis.judging.invariants.traced import coordinator_partition, offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.transactions.liveness.shares.homes import share_homes
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import SHARES
from kafkasim.model import facts
from kafkasim.model.records import TRANSACTION_STATE_TOPIC

_GROUP = re.compile(r"group (\S+) (?:is at|was given records below) \d+ of ")
_CLIENT = re.compile(r"(\S+) (?:has records that are neither|handles what it was given)")
_OPEN = re.compile(r"\S+ has an open transaction of producer id (\d+) from offset ")


class LastChanges:
    """Follows topics and partitions. ``topics`` are all that ever were, by topic id."""

    def __init__(self, trace: FactSource) -> None:
        self.topics: dict[str, facts.TopicCreated] = {}
        self._changes: dict[PartitionKey, facts.PartitionChanged] = {}
        self._left: dict[PartitionKey, dict[int, int]] = {}
        """When each broker that an ISR lacks left it: the position in the trace"""
        self._minima: dict[str, list[tuple[int, facts.ConfigChanged]]] = {}
        """By resource, the changes of min.insync.replicas and their positions in the trace"""
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.ConfigChanged, self._on_config)

    def of(self, key: PartitionKey) -> facts.PartitionChanged | None:
        """Return a partition's last change, None if it has had none."""
        return self._changes.get(key)

    def minimum(self, key: PartitionKey, absent: Collection[int]) -> int:
        """Return how many replicas an ISR needs before its leader appends for acks=all.

        It is the lowest min.insync.replicas in force since the last of some absent brokers left
        the ISR, and no more than there are replicas (Partition.effectiveMinIsr). While the topic
        has no value of its own, it is the lowest that the brokers ever had."""
        created, change = self.topics[key[0]], self._changes[key]
        left = self._left.get(key, {})
        since = max((left.get(broker, -1) for broker in absent), default=-1)
        own: list[str | None] = [None]
        for seq, fact in self._minima.get(f"topic:{created.topic}", ()):
            if fact.offset > created.offset:  # not of a topic of that name before
                own = [*(own if seq > since else ()), fact.value]
        if None in own:
            own += [str(created.min_isr), *self._of_brokers()]
        return min(*(int(each) for each in own if each is not None), len(change.replicas))

    def _of_brokers(self) -> list[str | None]:
        return [
            fact.value
            for resource, told in self._minima.items()
            for _, fact in told
            if resource.startswith("broker:")
        ]

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.topics.setdefault(fact.topic_id, fact)

    def _on_partition(self, seq: int, _t: int, _n: str, fact: facts.PartitionChanged) -> None:
        """Note a change; one that a new controller tells again is an old one."""
        key = (fact.topic_id, fact.partition)
        known = self._changes.get(key)
        if known is not None and fact.partition_epoch <= known.partition_epoch:
            return
        self._changes[key] = fact
        left = self._left.setdefault(key, {})
        for broker in fact.isr:
            left.pop(broker, None)
        if known is not None:
            left.update((broker, seq) for broker in known.isr if broker not in fact.isr)

    def _on_config(self, seq: int, _t: int, _node: str, fact: facts.ConfigChanged) -> None:
        """Note a value; one that a new controller tells again is an old one."""
        if fact.config == "min.insync.replicas":
            told = self._minima.setdefault(fact.resource, [])
            if not told or fact.offset > told[-1][1].offset:
                told.append((seq, fact))


class Homes:
    """Knows to which partition a coordinator writes for what a line of a stalled run tells of.

    ``ids`` are the transactional ids of client hosts, and ``members`` the hosts of each group.
    """

    def __init__(
        self, trace: FactSource, ids: Mapping[str, str], members: Mapping[str, Sequence[str]]
    ) -> None:
        self.changes = LastChanges(trace)
        self._ids = ids
        self._members = members
        self._owners: dict[int, str] = {}  # producer id -> transactional id
        trace.subscribe(facts.TransactionState, self._on_transaction)

    def why(self, line: str, stuck: Callable[[PartitionKey], str]) -> str:
        """Return why what a line tells of waits for a coordinator, or "".

        ``stuck(partition)`` says why a coordinator cannot write to its partition. A group of
        processors waits if each of them does: for its first producer id, or for the end of its
        transaction.
        """
        group = _GROUP.match(line)
        told = [stuck(home) for home in self._of_processors(group[1])] if group is not None else []
        first = next((why for home in self._of(line) if (why := stuck(home))), "")
        return first or (told[0] if told and all(told) else "")

    def _of_processors(self, group: str) -> list[PartitionKey]:
        """Return the partitions of the transactional ids of a group's members, if all have one."""
        ids = [self._ids.get(node) for node in self._members.get(group, ())]
        named = [self._of_id(each) for each in ids if each is not None]
        return named if len(named) == len(ids) else []

    def _of(self, line: str) -> tuple[PartitionKey, ...]:
        """Return the coordinators' partitions that must go on for what a line tells of."""
        group, client, shares = _GROUP.match(line), _CLIENT.match(line), SHARES.match(line)
        opened = _OPEN.match(line)
        topics, owner = self.changes.topics, None
        if shares is not None:
            return share_homes(shares[1], shares[4], int(shares[5]), topics)
        if group is not None:
            return (offsets_partition(group[1], topics),)
        if client is not None:
            owner = self._ids.get(client[1])
        elif opened is not None:
            owner = self._owners.get(int(opened[1]))
        return () if owner is None else (self._of_id(owner),)

    def _of_id(self, transactional_id: str) -> PartitionKey:
        topics = self.changes.topics
        return coordinator_partition(TRANSACTION_STATE_TOPIC, transactional_id, topics)

    def _on_transaction(self, _seq: int, _t: int, _n: str, fact: facts.TransactionState) -> None:
        self._owners[fact.producer_id] = fact.transactional_id
