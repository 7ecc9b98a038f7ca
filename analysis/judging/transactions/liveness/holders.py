"""Which groups read a partition on without their coordinator.

A consumer that holds a partition, and has a position in it, fetches from the partition's leader
whether its coordinator is there or not (KafkaConsumer.poll goes on to pollForFetches when
updateAssignmentMetadataIfNeeded has nobody to ask). So a group whose coordinator is stuck waits
only:

- where nobody holds the partition: it is in a rebalance, or asks for the committed offset;
- for a commit: commitSync has failed, or has been asked for with the position that the group has
  now; a processor sends its offsets in a transaction; nobody can tell of a consumer that has not
  told of any commit;
- for the partition: it has no leader, or the leader is down;
- at the last stable offset, if it reads committed records.

Nor does it explain a partition that the group had missed before
(``coordinators/missed_before.py``).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey, final_leaders
from kafkasim.analysis.judging.transactions.liveness.controllers.last_changes import LastChanges
from kafkasim.analysis.judging.transactions.liveness.coordinators.missed_before import (
    MissedBefore,
)
from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.model import facts

_LAG = re.compile(r"group (\S+) is at (\d+) of \d+ in (\S+)-(\d+) \(last read by ")

Member = tuple[str, str]
"""Group and host."""


class Holders:
    """Follows what consumers hold and commit.

    ``ids`` are the transactional ids of client hosts. ``settle_us`` is how long a group may take to
    be given a new partition, by group (``MissedBefore``).
    """

    def __init__(
        self,
        trace: FactSource,
        ids: Mapping[str, str],
        positions: Positions,
        settle_us: Mapping[str, int] | None = None,
    ) -> None:
        self._ids = ids
        self._missed = MissedBefore(trace, settle_us or {})
        self._positions = positions
        self._changes = LastChanges(trace)
        self._leaders = final_leaders(trace)
        self._committed: dict[Member, None] = {}  # that have told of a commit since their start
        self._synced: dict[tuple[Member, PartitionKey], tuple[int, str]] = {}  # offset, error
        self._syncs: dict[Member, None] = {}  # that have told of a commitSync
        self._stable: dict[Member, None] = {}  # that read committed records only
        trace.subscribe(facts.CommitResult, self._on_commit)
        trace.subscribe(facts.ReadsCommitted, self._on_reads_committed)
        trace.subscribe(facts.HostStarted, self._on_started)

    def reads_on(self, line: str, is_down: Callable[[int], bool]) -> bool:
        """Return whether a line tells of a group that does not wait for its coordinator to read on.

        ``is_down(broker)`` says whether a broker is down for ever.
        """
        found = _LAG.match(line)
        if found is None:
            return False
        key = self._key(found[3], int(found[4]))
        change = None if key is None else self._changes.of(key)
        if key is None or change is None or change.leader == -1 or is_down(change.leader):
            return False
        if (found[1], key) not in self._positions.last and self._missed.knows(found[1], key):
            return True
        position = int(found[2])
        return any(
            not self._waits((found[1], node), key, position)
            for node, at in self._positions.held(found[1], key).items()
            if at == position
        )

    def _waits(self, member: Member, key: PartitionKey, position: int) -> bool:
        """Return whether a consumer that holds a partition may wait for a commit or its leader."""
        if member[1] in self._ids or member not in self._committed:
            return True
        leader = self._leaders.get(key)
        if member in self._stable and leader and position >= leader.last_stable_offset:
            return True
        return member in self._syncs and self._synced.get((member, key)) != (position, "NONE")

    def _key(self, topic: str, partition: int) -> PartitionKey | None:
        topics = self._changes.topics
        return next(((id_, partition) for id_ in topics if topics[id_].topic == topic), None)

    def _on_commit(self, _seq: int, _t: int, node: str, fact: facts.CommitResult) -> None:
        member = (fact.group, node)
        self._committed[member] = None
        if fact.kind == "sync":
            self._syncs[member] = None
            self._synced[member, (fact.topic_id, fact.partition)] = (fact.offset, fact.error)

    def _on_reads_committed(
        self, _seq: int, _t: int, node: str, fact: facts.ReadsCommitted
    ) -> None:
        self._stable[fact.group, node] = None

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        for known in (self._committed, self._syncs):
            for member in [member for member in known if member[1] == node]:
                del known[member]
