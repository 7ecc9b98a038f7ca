"""Stalls behind a coordinator's partition that nobody leads, because a ZooKeeper answer was lost.

A ZooKeeper controller lost the answer to its write of a partition's first state. It finds the znode
when it tries again, takes NODEEXISTS for an error, and tells no broker of the partition
(PartitionStateMachine.initializeLeaderAndIsrForPartitions). The next controller that is elected
reads the state and does. Until then FindCoordinator answers COORDINATOR_NOT_AVAILABLE, and so wait:

- a group whose partition of ``__consumer_offsets`` it is;
- a producer whose transactional id has its partition of ``__transaction_state`` there:
  initTransactions never returns;
- a group of processors all of which wait so, because they subscribe afterwards.

Producers without transactions and readers do not wait for such a partition of their own topics:
metadata does not name it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from kafkasim.model import facts
from kafkasim.scenarios.judging.invariants.traced import coordinator_partition, offsets_partition
from kafkasim.scenarios.judging.source import FactSource, PartitionKey

LOST_ANSWER = "lost-zookeeper-answer"

_GROUP = re.compile(r"group (\S+) is at \d+ of \d+ in ")
_PRODUCER = re.compile(r"(\S+) has records that are neither")


class Unborn:
    """Follows the creation of partitions.

    ``ids`` are the transactional ids of client hosts, and ``members`` the hosts of each group.
    """

    def __init__(
        self, trace: FactSource, ids: Mapping[str, str], members: Mapping[str, Sequence[str]]
    ) -> None:
        self._ids = ids
        self._members = members
        self._topics: dict[str, facts.TopicCreated] = {}
        self._created: dict[str, int] = {}  # topic id -> the row of its creation
        self._connected: dict[str, int] = {}  # node -> the row of its last connection
        self._unborn: dict[PartitionKey, None] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.ZooKeeperConnection, self._on_connection)
        trace.subscribe(facts.StateChangeFailed, self._on_failed)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        if not self._unborn:
            return ""
        producer, group = _PRODUCER.match(line), _GROUP.match(line)
        if producer is not None:
            waits = self._cannot_begin(producer[1])
        else:
            waits = group is not None and self._cannot_read(group[1])
        return LOST_ANSWER if waits else ""

    def _cannot_read(self, group: str) -> bool:
        if offsets_partition(group, self._topics) in self._unborn:
            return True
        members = self._members.get(group, ())
        return bool(members) and all(self._cannot_begin(node) for node in members)

    def _cannot_begin(self, node: str) -> bool:
        """Return whether a client waits for its first producer id."""
        if node not in self._ids:
            return False
        home = coordinator_partition("__transaction_state", self._ids[node], self._topics)
        return home in self._unborn

    def _on_topic(self, seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics.setdefault(fact.topic_id, fact)
        self._created.setdefault(fact.topic_id, seq)

    def _on_partition(self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        self._unborn.pop((fact.topic_id, fact.partition), None)

    def _on_connection(self, seq: int, _t: int, node: str, fact: facts.ZooKeeperConnection) -> None:
        if fact.state == "CONNECTED":
            self._connected[node] = seq

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.StateChangeFailed) -> None:
        """Suspect a lost answer: the controller connected again after it learned of the topic."""
        if fact.error == "NODEEXISTS":
            if self._connected.get(node, -1) > self._created.get(fact.topic_id, -1):
                self._unborn[(fact.topic_id, fact.partition)] = None
