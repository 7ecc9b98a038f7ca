"""The min.insync.replicas in force at a leader, for MINISR.

A leader moves its high watermark while its ISR has as many members as its own min.insync.replicas
asks for (Partition.isUnderMinIsr): the topic's, else the one of this broker, else the one of all
brokers, and no more than there are replicas (Partition.effectiveMinIsr). A reassignment may leave
fewer: the fewest that the partition has had in the leader's epoch count. A change of the setting
counts there from when the broker has applied it until it has applied the next one, so a value that
was low once permits nothing afterwards.

KRaft: a broker tells up to which offset it has applied metadata when it begins to publish it
(MetadataLoader). BrokerMetadataPublisher publishes the roles of replicas first, and their leader
epoch checkpoints may wait for a slow disk. The settings come afterwards, and the next delta after
them. So until the broker tells the next offset, the values before and after count.

ZooKeeper: a broker is notified by /config/changes, and no fact tells when it has read the settings
(ZkConfigManager). It has done so 1.5 s after the write, for the notification and the reads; what
strikes the broker or the ensemble extends that until connections have healed, and by 1.5 s. Whoever
writes settings announces them afterwards. If it is struck in between, nobody may ever hear of them,
and the value before counts until the next change.

What the topic had when it was created is in TopicCreated. With ZooKeeper nothing tells whether that
was the topic's own value, so the lower one of it and the brokers' counts. Once an own value was
removed and the brokers have none, it may be 1, Kafka's default.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.harm.truth.disturbances import Disturbances
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

SPREAD_US = 1_500_000
MIN_ISR = "min.insync.replicas"
NEVER = "never set"

Value = int | None | str
"""A minimum, None after its removal, or NEVER."""


@dataclass(frozen=True, slots=True)
class _Change:
    offset: int  # a zxid with ZooKeeper
    t_us: int  # when it was told
    node: str  # who told it; with ZooKeeper, who wrote it
    value: int | None


class MinimaInForce:
    """Follows min.insync.replicas of topics and brokers, and what brokers know of them."""

    def __init__(self, trace: FactSource) -> None:
        self._disturbances = Disturbances(trace)
        self._ensemble: dict[str, None] = {}  # its servers; none in KRaft mode
        self._changes: dict[str, list[_Change]] = {}  # by resource
        self._applied: dict[str, tuple[int, int, int]] = {}
        """By broker: the offset that it told last, when, and the one that it had told before"""
        self._fewest: dict[tuple[str, int, int], int] = {}
        """By partition and leader epoch: the fewest replicas that it had"""
        trace.subscribe(facts.PartitionChanged, self._on_changed)
        trace.subscribe(facts.ConfigChanged, self._on_config)
        trace.subscribe(facts.MetadataCommitted, self._on_metadata)
        trace.subscribe(facts.ZooKeeperRole, self._on_role)

    def needed(
        self, created: facts.TopicCreated, node: str, t: int, fact: facts.HighWatermark
    ) -> int:
        """Return the lowest effective minimum that may be in force at a leader at ``t``."""
        epoch = (fact.topic_id, fact.partition, fact.leader_epoch)
        replicas = min(created.replication_factor, self._fewest.get(epoch, 1 << 31))
        if not self._changes:
            return min(created.min_isr, replicas)
        own = self._values(f"topic:{created.topic}", created.offset, node, t)
        found = [each for each in own if isinstance(each, int)]
        for each in own:
            if not isinstance(each, int):
                first = created.min_isr if each == NEVER else 1
                of_brokers = self._of_brokers(node, t, first)
                found += [
                    min(first, of_brokers) if each == NEVER and self._ensemble else of_brokers
                ]
        return min(*found, replicas)

    def _of_brokers(self, node: str, t: int, default: int) -> int:
        """Return the lowest minimum of a topic without an own one; ``default`` if none is set."""
        everywhere = [
            each if isinstance(each, int) else default
            for each in self._values("broker:", -1, node, t)
        ]
        here = self._values(f"broker:{broker_of(node)}", -1, node, t)
        return min(each if isinstance(each, int) else min(everywhere) for each in here)

    def _values(self, resource: str, since: int, node: str, t: int) -> list[Value]:
        """Return which values of a resource may be in force at a broker, NEVER for no change.

        Changes up to offset ``since`` were those of another topic of that name.
        """
        changes = [each for each in self._changes.get(resource, ()) if each.offset > since]
        if self._ensemble:
            found: list[Value] = []
            for change in reversed(changes):
                found.append(change.value)
                if self._has_spread(change, node, t):
                    return found
            return [*found, NEVER]
        offset, _, before = self._applied.get(node, (-1, -1, -1))
        return [_last(changes, end) for end in (offset, before)]

    def _has_spread(self, change: _Change, node: str, t: int) -> bool:
        """Return whether a broker in ZooKeeper mode surely knows of a change."""
        struck = self._disturbances.struck
        begun = change.t_us
        return (
            t - begun > SPREAD_US
            and not struck([change.node, *self._ensemble], begun, begun + SPREAD_US)
            and not struck([node, *self._ensemble], max(begun, t - SPREAD_US), t, healing=True)
        )

    def _on_changed(self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        epoch, count = (fact.topic_id, fact.partition, fact.leader_epoch), len(fact.replicas)
        self._fewest[epoch] = min(count, self._fewest.get(epoch, count))

    def _on_config(self, _seq: int, t: int, node: str, fact: facts.ConfigChanged) -> None:
        """Note a value; one that a new controller tells again is an old one."""
        if fact.config == MIN_ISR:
            told = self._changes.setdefault(fact.resource, [])
            if not told or fact.offset > told[-1].offset:
                value = None if fact.value is None else int(fact.value)
                told.append(_Change(fact.offset, t, node, value))

    def _on_metadata(self, _seq: int, t: int, node: str, fact: facts.MetadataCommitted) -> None:
        offset, at_us, before = self._applied.get(node, (-1, -1, -1))
        self._applied[node] = (fact.offset, t, before if at_us == t else offset)

    def _on_role(self, _seq: int, _t: int, node: str, _fact: facts.ZooKeeperRole) -> None:
        self._ensemble[node] = None


def _last(changes: list[_Change], end: int) -> Value:
    """Return the value of the last change up to an offset, NEVER if there is none."""
    value: Value = NEVER
    for change in changes:
        if change.offset <= end:
            value = change.value
    return value
