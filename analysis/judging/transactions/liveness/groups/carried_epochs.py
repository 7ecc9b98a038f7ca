"""Stalls of a group that committed an offset of a deleted topic in the topic created again.

A consumer that repeats its commit before a rebalance (ConsumerCoordinator.onJoinPrepare) until the
brokers know a topic of this name commits the old topic's offset in the new one, with the leader
epoch of the last batch that it got. OffsetFetch gives this epoch back, and
ConsumerUtils.refreshCommittedOffsets raises the last seen epoch to it
(Metadata.updateLastSeenEpochIfNewer). From then on the client knows no leader of the partition
(Metadata.partitionMetadataIfCurrent): metadata of a lower epoch under the same topic id changes
nothing (Metadata.updateLatestMetadata). So the position is never validated, and auto.offset.reset
does not help, until the new topic has had as many elections as the old one.
"""

from __future__ import annotations

import re

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

CARRIED = "epoch-of-a-deleted-topic"

_READS = re.compile(r"group (\S+) is at (\d+) of \d+ in (\S+)-(\d+) ")


class CarriedEpochs:
    """Follows commits of deleted topics, and the positions that consumers take from them."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._topics: dict[str, str] = {}  # topic id -> name
        self._now: dict[str, str] = {}  # name -> id of the topic created last
        self._deleted: dict[str, None] = {}
        self._epochs: dict[PartitionKey, list[tuple[int, int]]] = {}  # (leader epoch, its start)
        # By group, topic and partition: the offset and the epoch of the last commit, −1 if it was
        # one of the topic that there is.
        self._commits: dict[tuple[str, str, int], tuple[int, int]] = {}
        self._positions: dict[tuple[str, PartitionKey], tuple[int, int]] = {}  # offset and epoch
        trace.subscribe(facts.TopicCreated, self._on_created)
        trace.subscribe(facts.TopicDeleted, self._on_deleted)
        trace.subscribe(facts.BecameLeader, self._on_leader)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss for ever what a line of a stalled run tells of, or ""."""
        found = _READS.match(line)
        if found is None or found[3] not in self._now:
            return ""
        key = (self._now[found[3]], int(found[4]))
        offset, epoch = self._positions.get((found[1], key), (-1, -1))
        led = max((each for each, _ in self._epochs.get(key, ())), default=-1)
        return CARRIED if offset == int(found[2]) and epoch > led else ""

    def _on_created(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact.topic
        self._now[fact.topic] = fact.topic_id

    def _on_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        if not self._deleted:  # runs without a deletion pay for nothing
            self._trace.subscribe(facts.CommitResult, self._on_commit)
            self._trace.subscribe(facts.Positioned, self._on_positioned)
        self._deleted[fact.topic_id] = None

    def _on_leader(self, _seq: int, _t: int, _node: str, fact: facts.BecameLeader) -> None:
        started = (fact.leader_epoch, fact.start_offset)
        self._epochs.setdefault((fact.topic_id, fact.partition), []).append(started)

    def _on_commit(self, _seq: int, _t: int, _node: str, fact: facts.CommitResult) -> None:
        name = self._topics.get(fact.topic_id)
        if name is None or fact.error != "NONE":
            return
        epoch = -1
        if fact.topic_id in self._deleted:
            epochs = self._epochs.get((fact.topic_id, fact.partition), ())
            epoch = max((each for each, start in epochs if start < fact.offset), default=-1)
        self._commits[fact.group, name, fact.partition] = (fact.offset, epoch)

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        name = self._topics.get(fact.topic_id, "")
        place = (fact.group, (fact.topic_id, fact.partition))
        offset, epoch = self._commits.get((fact.group, name, fact.partition), (-1, -1))
        carried = fact.reason == "committed" and fact.offset == offset
        self._positions[place] = (offset, epoch) if carried else (-1, -1)
