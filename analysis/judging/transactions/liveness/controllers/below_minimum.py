"""Stalls behind a partition that has lost too many replicas.

A broker that cannot register ends itself, and stays down until an operator starts it
(``registrations.py``, ``unlisted_leader.py``). Or a leader adds nobody to its ISR any more in its
epoch (``lost_answers.py``). Of a partition whose other replicas are fewer than
min.insync.replicas, the leader appends nothing any more for acks=all, as coordinators ask
for it (Partition.appendRecordsToLeader). They answer with COORDINATOR_NOT_AVAILABLE, and their
clients ask for ever:

- GroupMetadataManager.storeGroup and storeOffsets, and since 4.0
  CoordinatorOperationExceptionHelper.handleOperationException: no assignment is stored, and no
  commit;
- TransactionStateManager.appendTransactionToLog: initTransactions never returns, no partition is
  added to a transaction, and none is ended;
- the same of the partitions of a share group, in ``__consumer_offsets`` and
  ``__share_group_state``.

A producer without an answer to its transactional request does not look at the age of its batches
either (Sender.runOnce returns before sendProducerData). A consumer that holds a partition reads it
on: the leader serves its fetches, and only what it commits is refused (``holders.py``).

The high watermark of such a partition stands still, too (Partition.maybeIncrementLeaderHW asks
isUnderMinIsr since 3.7, KAFKA-15583). A follower that became the leader begins with the high
watermark that it had as a follower, which may be lower than the one that the leader before it let
consumers read to. A group that had not read those records yet waits for them for ever. It does not
even get a position where auto.offset.reset is latest: while the high watermark is below the start
of the leader's epoch, ListOffsets is answered OFFSET_NOT_AVAILABLE
(Partition.fetchOffsetForTimestamp, KIP-207).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, Waits
from kafkasim.analysis.judging.transactions.liveness.controllers.last_changes import (
    Homes,
    LastChanges,
)
from kafkasim.analysis.judging.transactions.liveness.holders import Holders
from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.model import facts
from kafkasim.model.facts.names import node_of

_GROUP = re.compile(r"group (\S+) is at (\d+) of (\d+) in (\S+)-(\d+) ")

Stuck = Callable[[PartitionKey, int], str]
"""Why the leader of a partition in an epoch changes its ISR no more, or ""."""


class FewReplicas:
    """Knows which partitions have too few replicas for ever.

    ``judges`` know which brokers are gone, and ``stuck`` whose leader adds nobody to the ISR any
    more in an epoch.
    """

    def __init__(
        self, changes: LastChanges, judges: Sequence[Waits], stuck: Stuck = lambda _key, _epoch: ""
    ) -> None:
        self._changes = changes
        self._judges = judges
        self._stuck = stuck

    def why(self, key: PartitionKey) -> str:
        """Return why too few replicas of a partition are left, or ""."""
        change = self._changes.of(key)
        if change is None:
            return ""
        absent = [broker for broker in change.replicas if broker not in change.isr]
        stuck = self._stuck(key, change.leader_epoch)
        gone = {broker: why for broker in absent if (why := self.gone(broker) or stuck)}
        if len(change.replicas) - len(gone) >= self._changes.minimum(key, gone):
            return ""
        return next(iter(gone.values()), "")

    def gone(self, broker: int) -> str:
        """Return why a broker is down for ever, or ""."""
        told = (judge.excuse(f"broker-{broker} is down") for judge in self._judges)
        return next((why for why in told if why), "")


class BelowMinimum:
    """Follows the ISRs of coordinators' partitions.

    ``ids`` are the transactional ids of client hosts, and ``members`` the hosts of each group;
    ``judges`` and ``stuck`` are those of :class:`FewReplicas`.
    """

    def __init__(
        self,
        trace: FactSource,
        ids: Mapping[str, str],
        members: Mapping[str, Sequence[str]],
        judges: Sequence[Waits],
        holders: Holders,
        stuck: Stuck = lambda _key, _epoch: "",
    ) -> None:
        self._homes = Homes(trace, ids, members)
        self._holders = holders
        self._few = FewReplicas(self._homes.changes, judges, stuck)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        why = self._homes.why(line, self._few.why)
        reads_on = why and self._holders.reads_on(line, lambda node: bool(self._few.gone(node)))
        return "" if reads_on else why


class HeldWatermarks:
    """Knows which groups wait at a high watermark that too few replicas are left to move.

    ``judges`` know which brokers are gone; ``positions`` says where groups are.
    """

    def __init__(self, trace: FactSource, judges: Sequence[Waits], positions: Positions) -> None:
        self._changes = LastChanges(trace)
        self._positions = positions
        self._few = FewReplicas(self._changes, judges)
        self._leaders: dict[PartitionKey, facts.FinalReplica] = {}
        trace.subscribe(facts.FinalReplica, self._on_final)

    def excuse(self, line: str) -> str:
        """Return why the high watermark moves no more that a group has read to, or ""."""
        found = _GROUP.match(line)
        if found is None:
            return ""
        group, position, exposed = found[1], int(found[2]), int(found[3])
        named = [id_ for id_, made in self._changes.topics.items() if made.topic == found[4]]
        key = (named[-1] if named else "", int(found[5]))
        leader = self._leaders.get(key)
        if leader is None or leader.log_end_offset < exposed:
            return ""
        at_its_end = leader.high_watermark <= position < exposed
        waits = at_its_end or (_withholds_its_end(leader) and self._looks_up(group, key))
        return self._few.why(key) if waits else ""

    def _looks_up(self, group: str, key: PartitionKey) -> bool:
        """Return whether a group's member was given a partition, and has no position in it."""
        name = f"{self._changes.topics[key[0]].topic}-{key[1]}"
        return self._positions.is_assigned(group, name) and (group, key) not in self._positions.last

    def _on_final(self, _seq: int, _t: int, node: str, fact: facts.FinalReplica) -> None:
        key = (fact.topic_id, fact.partition)
        change = self._changes.of(key)
        if fact.leading and change is not None and node == node_of(change.leader):
            self._leaders[key] = fact


def _withholds_its_end(leader: facts.FinalReplica) -> bool:
    """Return whether a leader does not tell where its log ends: less is committed than it began
    its epoch with."""
    starts = dict(zip(leader.epoch_starts[::2], leader.epoch_starts[1::2]))
    return leader.high_watermark < starts.get(leader.leader_epoch, -1)
