"""The last leader of each share partition, for the judges of stalled share groups (KIP-932)."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeAlias, TypeVar

from kafkasim.analysis.judging.promise import FactSource, Handler
from kafkasim.model import facts

SHARES = re.compile(r"share group (\S+) is at (\d+) of (\d+) in (\S+)-(\d+)$")
"""A line of a stalled run: group, start offset, high watermark, topic and partition."""

ARCHIVED = 4
DONE = (2, ARCHIVED)
"""The final states in FinalSharePartition: acknowledged and archived."""

Key: TypeAlias = tuple[str, str, int]
"""Group, topic id, partition."""

Told: TypeAlias = (
    facts.ShareAcquired
    | facts.ShareMoved
    | facts.ShareStaleArchived
    | facts.ShareStartFailed
    | facts.ShareStartMoved
    | facts.FinalSharePartition
)
"""What the leader of a share partition tells."""


class Leader:
    """A leader since it read the state; ``final`` is its state at the end of the run."""

    def __init__(self, node: str, epoch: int) -> None:
        self.node = node
        self.epoch = epoch
        self.final: facts.FinalSharePartition | None = None


L = TypeVar("L", bound=Leader)


class Stall(NamedTuple, Generic[L]):
    """A share partition in which a group stands still, by a line of a stalled run."""

    key: Key
    reached: int  # the start offset that the group has come to
    end: int  # the high watermark
    leader: L  # the last one
    final: facts.FinalSharePartition


class Leaders(Generic[L]):
    """Follows who leads share partitions.

    ``begins(key, node, fact)`` makes a leader that has read the state. ``follow`` has the handlers
    of what leaders tell; they are called once there is a share partition, so that other runs pay
    for nothing.
    """

    def __init__(
        self,
        trace: FactSource,
        begins: Callable[[Key, str, facts.SharePartitionLoaded], L],
        follow: dict[type, Handler],
    ) -> None:
        self._trace = trace
        self._begins = begins
        self._follow = {**follow, facts.FinalSharePartition: self._on_final}
        self._topic_ids: dict[str, str] = {}  # of two topics of one name, the later one's
        self.last: dict[Key, L] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.SharePartitionLoaded, self._on_loaded)

    def stall(self, line: str) -> Stall[L] | None:
        """Return what a line of a stalled run tells of; None if that is no share partition, or one
        whose last leader has no final state."""
        found = SHARES.match(line)
        if found is None:
            return None
        key = (found[1], self._topic_ids.get(found[4], ""), int(found[5]))
        leader = self.last.get(key)
        if leader is None or leader.final is None:
            return None
        return Stall(key, int(found[2]), int(found[3]), leader, leader.final)

    def who_tells(self, node: str, fact: Told) -> L | None:
        """Return the last leader if it is who tells the fact."""
        leader = self.last.get((fact.group, fact.topic_id, fact.partition))
        known = leader is not None and (leader.node, leader.epoch) == (node, fact.leader_epoch)
        return leader if known else None

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topic_ids[fact.topic] = fact.topic_id

    def _on_loaded(self, _seq: int, _t: int, node: str, fact: facts.SharePartitionLoaded) -> None:
        if not self.last:
            for kind, handler in self._follow.items():
                self._trace.subscribe(kind, handler)
        key = (fact.group, fact.topic_id, fact.partition)
        leader = self._begins(key, node, fact)
        before = self.last.get(key)
        if before is None or fact.leader_epoch >= before.epoch:
            self.last[key] = leader

    def _on_final(self, _seq: int, _t: int, node: str, fact: facts.FinalSharePartition) -> None:
        leader = self.who_tells(node, fact)
        if leader is not None:
            leader.final = fact


def offsets_of(log: facts.FinalReplica, start: int, end: int) -> dict[int, None]:
    """Return the offsets of a log's batches from ``start`` to before ``end``."""
    return {
        offset: None
        for base, following in zip(log.base_offsets, log.next_offsets, strict=True)
        for offset in range(max(base, start), min(following, end))
    }


def states_from(final: facts.FinalSharePartition, start: int) -> dict[int, int]:
    """Return the states that a leader's cache has from ``start`` on, by offset."""
    return {
        offset: state
        for first, last, state in zip(
            final.first_offsets, final.last_offsets, final.states, strict=True
        )
        for offset in range(max(first, start), last + 1)
    }


def are_done(states: dict[int, int], present: dict[int, None]) -> bool:
    """Return whether a leader has done all offsets of its cache, which has all of its log's."""
    return all(offset in states for offset in present) and all(
        state in DONE for state in states.values()
    )
