"""Partitions that a group had missed before its coordinator got stuck.

A group whose coordinator cannot write is given no partition any more, which explains that nobody
holds one. It does not explain a partition that the group should have had before: it was there, with
a leader, while nothing disturbed the cluster for as long as a group may take to find and assign a
partition, and the coordinator acknowledged a commit of the group afterwards.

That takes a group at most

- the session of a leader that is gone (session.timeout.ms; until then nobody looks for it);
- a request to a host that does not answer (request.timeout.ms), and metadata.max.age.ms until the
  leader asks for metadata again (ConsumerCoordinator.rejoinNeededOrPending);
- two join phases, each of max.poll.interval.ms (KIP-62): a cooperative group needs two (KIP-429);
- group.initial.rebalance.delay.ms of a new group;
- ``MORE_US`` for the round trips.

A fault, a start or an end of a host, and a change of the partition begin that time anew, and it
does not run while a fault is in force.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

MORE_US = 1_000_000


class MissedBefore:
    """Follows quiet times, the last change of each partition and the last commit of each group.

    ``settle_us`` is by group how long it may take to find and assign a partition, without
    ``MORE_US``; of others nothing is said.
    """

    def __init__(self, trace: FactSource, settle_us: Mapping[str, int]) -> None:
        self._settle_us = settle_us
        self._changed: dict[PartitionKey, int] = {}  # when
        self._committed: dict[str, int] = {}  # group -> when the coordinator acknowledged a commit
        self._quiet: list[tuple[int, int]] = []  # from, to
        self._since = 0  # the last disturbance
        self._faults = 0  # in force
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.HostStarted, self._on_host)
        trace.subscribe(facts.HostStopped, self._on_host)
        trace.subscribe(facts.FaultStarted, self._on_fault)
        trace.subscribe(facts.FaultEnded, self._on_fault_ended)

    def knows(self, group: str, key: PartitionKey) -> bool:
        """Return whether a group should have had a partition before its coordinator got stuck."""
        settle_us, until = self._settle_us.get(group), self._committed.get(group, -1)
        changed = self._changed.get(key)
        if settle_us is None or changed is None:
            return False
        quiet = list(self._quiet)
        if not self._faults:
            quiet.append((self._since, until))
        return any(
            min(end, until) - max(begin, changed) >= settle_us + MORE_US for begin, end in quiet
        )

    def _disturb(self, t: int) -> None:
        if not self._faults:
            self._quiet.append((self._since, t))
        self._since = t

    def _on_host(self, _s: int, t: int, _n: str, _f: facts.HostStarted | facts.HostStopped) -> None:
        self._disturb(t)

    def _on_fault(self, _seq: int, t: int, _node: str, _fact: facts.FaultStarted) -> None:
        self._disturb(t)
        self._faults += 1

    def _on_fault_ended(self, _seq: int, t: int, _node: str, _fact: facts.FaultEnded) -> None:
        self._disturb(t)
        self._faults -= 1

    def _on_partition(self, _s: int, t: int, _n: str, fact: facts.PartitionChanged) -> None:
        self._changed[fact.topic_id, fact.partition] = t

    def _on_committed(self, _s: int, t: int, _n: str, fact: facts.OffsetCommitted) -> None:
        self._committed[fact.group] = t
