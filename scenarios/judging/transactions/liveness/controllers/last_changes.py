"""The topics of a cluster, the last change of each of their partitions, and who writes there."""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.model import facts
from kafkasim.model.records import TRANSACTION_STATE_TOPIC
from kafkasim.scenarios.judging.invariants.traced import coordinator_partition, offsets_partition
from kafkasim.scenarios.judging.source import FactSource, PartitionKey
from kafkasim.scenarios.judging.transactions.liveness.shares.homes import share_homes
from kafkasim.scenarios.judging.transactions.liveness.shares.leaders import SHARES

_GROUP = re.compile(r"group (\S+) (?:is at|was given records below) \d+ of ")
_CLIENT = re.compile(r"(\S+) (?:has records that are neither|handles what it was given)")
_OPEN = re.compile(r"\S+ has an open transaction of producer id (\d+) from offset ")


class LastChanges:
    """Follows topics and partitions. ``topics`` are all that ever were, by topic id."""

    def __init__(self, trace: FactSource) -> None:
        self.topics: dict[str, facts.TopicCreated] = {}
        self._changes: dict[PartitionKey, facts.PartitionChanged] = {}
        self._minimum: dict[str, int] = {}  # resource -> the lowest min.insync.replicas that it got
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.ConfigChanged, self._on_config)

    def of(self, key: PartitionKey) -> facts.PartitionChanged | None:
        """Return a partition's last change, None if it has had none."""
        return self._changes.get(key)

    def minimum(self, key: PartitionKey) -> int:
        """Return how many replicas an ISR needs before its leader appends for acks=all.

        It is the lowest min.insync.replicas that the topic or the brokers ever had, and no more
        than there are replicas (Partition.effectiveMinIsr)."""
        created, change = self.topics[key[0]], self._changes[key]
        told = self._minimum
        lowest = min(
            [created.min_isr]
            + [n for of, n in told.items() if of in (f"topic:{created.topic}", "broker")]
        )
        return min(lowest, len(change.replicas))

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.topics.setdefault(fact.topic_id, fact)

    def _on_partition(self, _seq: int, _t: int, _n: str, fact: facts.PartitionChanged) -> None:
        """Note a change; one that a new controller tells again is an old one."""
        key = (fact.topic_id, fact.partition)
        known = self._changes.get(key)
        if known is None or fact.partition_epoch > known.partition_epoch:
            self._changes[key] = fact

    def _on_config(self, _seq: int, _t: int, _node: str, fact: facts.ConfigChanged) -> None:
        if fact.config == "min.insync.replicas" and fact.value is not None:
            kind = fact.resource.partition(":")[0]
            of = "broker" if kind == "broker" else fact.resource
            self._minimum[of] = min(self._minimum.get(of, int(fact.value)), int(fact.value))


class Homes:
    """Knows to which partition a coordinator writes for what a line of a stalled run tells of.

    ``ids`` are the transactional ids of client hosts.
    """

    def __init__(self, trace: FactSource, ids: Mapping[str, str]) -> None:
        self.changes = LastChanges(trace)
        self._ids = ids
        self._owners: dict[int, str] = {}  # producer id -> transactional id
        trace.subscribe(facts.TransactionState, self._on_transaction)

    def of(self, line: str) -> tuple[PartitionKey, ...]:
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
        if owner is None:
            return ()
        return (coordinator_partition(TRANSACTION_STATE_TOPIC, owner, topics),)

    def _on_transaction(self, _seq: int, _t: int, _n: str, fact: facts.TransactionState) -> None:
        self._owners[fact.producer_id] = fact.transactional_id
