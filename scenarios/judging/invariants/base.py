"""What all invariants share: violations, and the state of every replica as the facts tell it.

:class:`Cluster` follows the trace and keeps, per partition, each replica's log as a rolling prefix
hash per batch, the controller's ISR and the committed prefix. Invariants subscribe behind it and
touch only what a fact changed. It reads logs through ``view`` because a fact does not carry what a
follower wrote: the check must see the log, not what the log's owner says.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasim.model import facts
from kafkasim.model.group.hashing import partition_for

Key = tuple[str, int]
View = Callable[[str, str, int], Any]
"""``view(node, topic_id, partition)`` is that replica's log, or None when it has none."""

NEVER_EXCUSED = ("ISRELIG", "MINISR", "ONELEADER")
"""What no lost data explains (who leads and belongs), as the Spark checks have it. All else is judged
by offset, and lost data frees offsets; with a group's offsets its generations are lost (EXCL)."""


@dataclass(slots=True)
class Violation:
    """One broken invariant: where, when, and the rows that disagree."""

    invariant: str
    seq: int
    t_us: int
    topic_id: str
    partition: int
    message: str
    expected: str = ""  # why the claim does not cover it, e.g. last-replica-standing


class ReplicaLog:
    """One replica's log as prefix hashes: ``hashes[i]`` covers everything below ``nexts[i]``."""

    __slots__ = ("epochs", "hashes", "joining", "log", "nexts", "suspect")

    def __init__(self) -> None:
        self.nexts: list[int] = []
        self.epochs: list[int] = []
        self.hashes: list[int] = []
        self.log: Any = None
        self.suspect = False  # lost power while in the ISR, until it has left it
        self.joining = False  # lost it when it was fit for the ISR: a proposal may be on the way

    def lost(self, member: bool, exposed: int, exposed_hash: int) -> None:
        """Remember that the disk was lost, or what was not flushed of it."""
        self.suspect = member
        fit = self.joining or self.holds(exposed, exposed_hash)
        self.joining = fit and not member

    @property
    def log_end_offset(self) -> int:
        """The offset after the last batch."""
        return self.nexts[-1] if self.nexts else 0

    def prefix(self, offset: int) -> int:
        """Return the hash of the batches below ``offset`` (0 for none)."""
        index = bisect_right(self.nexts, offset)
        return self.hashes[index - 1] if index else 0

    def holds(self, offset: int, prefix_hash: int) -> bool:
        """Return whether the log reaches ``offset`` and is that prefix below it."""
        nexts = self.nexts
        if not nexts:
            return offset <= 0 and prefix_hash == 0
        if nexts[-1] <= offset:
            return nexts[-1] == offset and self.hashes[-1] == prefix_hash
        return self.prefix(offset) == prefix_hash

    def cut(self, offset: int) -> None:
        """Drop every batch that reaches beyond ``offset``."""
        index = bisect_right(self.nexts, offset)
        del self.nexts[index:], self.epochs[index:], self.hashes[index:]


@dataclass(slots=True)
class PartitionState:
    """What is known of one partition."""

    key: Key
    replicas: dict[str, ReplicaLog] = field(default_factory=dict)
    canonical: dict[tuple[int, int], int] = field(default_factory=dict)
    isr: tuple[int, ...] = ()
    members: tuple[str, ...] = ()  # the nodes of the ISR
    leader: int = -1
    leader_epoch: int = -1
    partition_epoch: int = -1
    min_isr: int = 1
    exposed: int = 0  # the highest HW any leader exposed, and the prefix it exposed
    exposed_hash: int = 0
    unclean_epoch: int = -1  # the last leader epoch that began with an unclean election
    led_epoch: int = -1  # the last leader epoch that any replica took up
    forgiven: str = ""  # why a loss in this partition is expected

    def replica(self, node: str) -> ReplicaLog:
        """Return the replica of a node, a new one if it was not known."""
        known = self.replicas.get(node)
        if known is None:
            known = self.replicas[node] = ReplicaLog()
        return known


class Cluster:
    """The state of all partitions, and the violations found."""

    MOST = 20  # violations kept of one invariant: the first ones tell the story

    def __init__(self, trace: Any, view: View, forgive: Callable[[Key], str]) -> None:
        self.trace = trace
        self.view = view
        self.forgive = forgive
        self.partitions: dict[Key, PartitionState] = {}
        self.topics: dict[str, facts.TopicCreated] = {}
        self.violations: list[Violation] = []
        self._kept: dict[tuple[str, str], int] = {}  # per invariant and excuse

    def partition(self, topic_id: str, partition: int) -> PartitionState:
        """Return the state of a partition."""
        key = (topic_id, partition)
        state = self.partitions.get(key)
        if state is None:
            state = self.partitions[key] = PartitionState(key)
        return state

    def violated(
        self, invariant: str, seq: int, t_us: int, key: Key, message: str, expected: str = ""
    ) -> None:
        """Keep a violation; one of a partition outside the budget is expected.

        What is expected is counted apart: it must not crowd out what is not.
        """
        reason = expected or ("" if invariant in NEVER_EXCUSED else self.forgive(key))
        kept = self._kept.get((invariant, reason), 0)
        if kept < self.MOST:
            self._kept[(invariant, reason)] = kept + 1
            self.violations.append(Violation(invariant, seq, t_us, *key, message, reason))

    def group_key(self, group: str) -> Key:
        """Return the partition of the offsets topic that holds what a group was promised."""
        return offsets_partition(group, self.topics)


def offsets_partition(group: str, topics: Mapping[str, facts.TopicCreated]) -> Key:
    """Return the partition that holds a group (``("", -1)`` without an offsets topic)."""
    for topic_id, created in topics.items():
        if created.topic == "__consumer_offsets":
            return topic_id, partition_for(group, created.partitions)
    return "", -1


def node_of(broker: int) -> str:
    """Return the node name of a broker id."""
    return f"broker-{broker}"


def broker_of(node: str) -> int:
    """Return the broker id of a node name."""
    return int(node.rpartition("-")[2])
