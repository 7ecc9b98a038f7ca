"""Stalls that a legal loss leaves behind, because no coordinator will end a transaction.

A transaction spans logs. When one of them legally loses records, the others do not:

- The coordinator has forgotten the transaction. Nobody writes its markers, so the last stable
  offset stays where it is until an operator aborts it (KIP-664). Readers of committed records wait
  there, share groups among them. If it holds the offsets of a group, OffsetFetch answers
  UNSTABLE_OFFSET_COMMIT for ever.
- The coordinator has forgotten epochs of the producer. A leader that knows a higher epoch refuses
  the marker with INVALID_PRODUCER_EPOCH; the coordinator gives it up and leaves the transaction in
  Prepare* (TransactionMarkerRequestCompletionHandler). Its producers get CONCURRENT_TRANSACTIONS
  for ever, also from the next coordinator (KAFKA-19999 tells of the same standstill).

Without a loss a coordinator may skip a marker (``known/skipped_markers.py``), have no epoch left to
end a transaction with (``exhausted_epochs.py``), or have told of one from a record that was not
committed (``coordinators/uncommitted_loads.py``). A leader before KIP-890 may have taken a batch
behind the marker (``known/unverified.py``). Or the leader may have missed the marker, which
the cleaners of the others had removed (``copies/missed_markers.py``), or may refuse it, because too
few replicas are left (``coordinators/unwritten_markers.py``).

What is missing when a run ends is told by lines; this module says which of them wait for such a
transaction. It reads the final logs, so it is asked after the run has ended.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from kafkasim.analysis.judging.copies.missed_markers import MissedEnds
from kafkasim.analysis.judging.history.footing import Footing, Spot
from kafkasim.analysis.judging.holes import NO_PROGRESS, EnteredHoles, Place
from kafkasim.analysis.judging.invariants.traced import offsets_partition
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import Losses, PartitionKey, final_leaders
from kafkasim.analysis.judging.transactions.liveness.coordinators.uncommitted_loads import (
    UncommittedLoads,
)
from kafkasim.analysis.judging.transactions.liveness.coordinators.unwritten_markers import (
    UnwrittenMarkers,
)
from kafkasim.analysis.judging.transactions.liveness.exhausted_epochs import ExhaustedEpochs
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import SHARES
from kafkasim.model import facts

_GROUP = re.compile(r"group (\S+) (?:is at|was given records below) \d+ of (?:\d+ in )?(\S+)-(\d+)")
_OPEN = re.compile(r"(\S+)-(\d+) has an open transaction of producer id (\d+) from offset (\d+) on")
_NODE = re.compile(r"(\S+) (?:has records that are neither|handles what it was given)")


class Standstill:
    """Follows the transactions of one run.

    ``positions`` says where each group is in each partition, and which member read there last.
    """

    def __init__(
        self,
        trace: FactSource,
        losses: Losses,
        positions: Mapping[tuple[str, PartitionKey], tuple[int, str]],
        missed: MissedEnds,
        unwritten: UnwrittenMarkers,
    ) -> None:
        self._footing = Footing(trace, losses)
        self._holes = EnteredHoles(trace)
        self._exhausted = ExhaustedEpochs(trace)
        self._missed = missed
        self._unwritten = unwritten
        self._loads = UncommittedLoads(trace, self._footing)
        self._positions = positions
        self._topics: dict[str, facts.TopicCreated] = {}
        self._ids_of_node: dict[str, dict[str, None]] = {}
        self._ids_of_producer: dict[int, dict[str, None]] = {}
        self._groups_of_id: dict[str, dict[str, None]] = {}  # whose offsets it has committed
        self._readers: dict[str, dict[str, None]] = {}  # node -> groups that read committed records
        self._share_readers: dict[str, None] = {}  # share groups that read committed records
        self._given_up: dict[str, None] = {}  # transactional ids
        self._leaders = final_leaders(trace)
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.TransactionBegun, self._on_begun),
            (facts.TransactionOffsets, self._on_offsets),
            (facts.TransactionState, self._on_state),
            (facts.MarkerGivenUp, self._on_given_up),
            (facts.ReadsCommitted, self._on_reader),
            (facts.ConfigChanged, self._on_config),
        ):
            trace.subscribe(kind, handler)

    def excuse(self, line: str) -> str:
        """Return why Kafka would miss the same for ever: the reason of a loss mostly, or ""."""
        found = _GROUP.match(line)
        if found is not None:
            group, topic, partition = found.groups()
            key = (self._topic_id(topic), int(partition))
            position, node = self._positions.get((group, key), (0, ""))
            return self._of_reader(group, key, position) or self._of_node(node)
        found = SHARES.match(line)
        if found is not None:
            key = (self._topic_id(found[4]), int(found[5]))
            return self._of_shares(found[1], key, int(found[2]))
        found = _OPEN.match(line)
        if found is not None:
            topic, *numbers = found.groups()
            partition, producer_id, offset = map(int, numbers)
            return self._of_open((self._topic_id(topic), partition), producer_id, offset)
        found = _NODE.match(line)
        return "" if found is None else self._of_node(found[1])

    def _of_node(self, node: str) -> str:
        """Return the excuse of a client: its transaction or its group's offsets stand still."""
        for transactional_id in self._ids_of_node.get(node, ()):
            if transactional_id in self._given_up:
                return self._footing.lost([self._footing.of_id(transactional_id, -1)])
            exhausted = self._exhausted.excuse(transactional_id)
            if why := exhausted or self._unwritten.excuse(transactional_id):
                return why
        excuses = [self._of_group(group) for group in self._readers.get(node, ())]
        return next((each for each in excuses if each), "")

    def _of_reader(self, group: str, key: PartitionKey, position: int) -> str:
        """Return the excuse of a group that has read to the last stable offset, or cannot begin.

        It may have read beyond, before the partition lost a marker.
        """
        if all(group not in groups for groups in self._readers.values()):
            return ""
        leader = self._leaders.get(key)
        if leader is not None and _is_done(leader, position):
            return self._held_back(key)
        return self._of_group(group)

    def _of_shares(self, group: str, key: PartitionKey, position: int) -> str:
        """Return the excuse of a share group that has done all below the last stable offset.

        Only one that reads committed records waits there (ReplicaManager.readFromLog with the
        isolation of KafkaApis.handleShareFetchRequest, share.isolation.level).
        """
        leader = self._leaders.get(key)
        if group not in self._share_readers or leader is None:
            return ""
        return self._held_back(key) if _is_done(leader, position) else ""

    def _of_group(self, group: str) -> str:
        """Return the excuse of a group whose offsets are unstable."""
        return self._held_back(offsets_partition(group, self._topics), group)

    def _held_back(self, key: PartitionKey, group: str | None = None) -> str:
        """Return why a partition's last stable offset stays; of ``group``, if it is the group's."""
        leader = self._leaders.get(key)
        if leader is None or leader.last_stable_offset >= leader.high_watermark:
            return ""
        stable = leader.last_stable_offset
        columns = zip(leader.base_offsets, leader.next_offsets, leader.producer_ids)
        producer_id = next((by for base, end, by in columns if base <= stable < end), -1)
        return self._of_open(key, producer_id, stable, group)

    def _of_open(
        self, key: PartitionKey, producer_id: int, offset: int, group: str | None = None
    ) -> str:
        """Return why nobody ends the transaction of a producer that is open from an offset on."""
        ids = [
            each
            for each in self._ids_of_producer.get(producer_id, ())
            if group is None or group in self._groups_of_id.get(each, ())
        ]
        if not ids:
            return ""
        spots = [self._footing.of_id(each, -1) for each in ids]
        excuses = (
            self._footing.lost([Spot(key, offset), *spots]),
            self._holes.covering(NO_PROGRESS, Place(*key, producer_id=producer_id)),
            self._loads.excuse(key, producer_id),
            *[self._exhausted.excuse(each, producer_id) for each in ids],
            *[self._unwritten.excuse(each, key) for each in ids],
            self._missed.excuse_open(key, offset),
        )
        return next((each for each in excuses if each), "")

    def _topic_id(self, topic: str) -> str:
        return next((id_ for id_, fact in self._topics.items() if fact.topic == topic), "")

    # Following.

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._topics[fact.topic_id] = fact

    def _on_begun(self, _seq: int, _t: int, node: str, fact: facts.TransactionBegun) -> None:
        self._ids_of_node.setdefault(node, {})[fact.transactional_id] = None
        self._ids_of_producer.setdefault(fact.producer_id, {})[fact.transactional_id] = None

    def _on_offsets(self, _seq: int, _t: int, _n: str, fact: facts.TransactionOffsets) -> None:
        self._groups_of_id.setdefault(fact.transactional_id, {})[fact.group] = None

    def _on_state(self, _seq: int, _t: int, _node: str, fact: facts.TransactionState) -> None:
        self._given_up.pop(fact.transactional_id, None)

    def _on_given_up(self, _seq: int, _t: int, _node: str, fact: facts.MarkerGivenUp) -> None:
        if fact.error == "INVALID_PRODUCER_EPOCH":
            self._given_up[fact.transactional_id] = None

    def _on_reader(self, _seq: int, _t: int, node: str, fact: facts.ReadsCommitted) -> None:
        self._readers.setdefault(node, {})[fact.group] = None

    def _on_config(self, _seq: int, _t: int, _node: str, fact: facts.ConfigChanged) -> None:
        kind, _, group = fact.resource.partition(":")
        if kind == "group" and fact.config == "share.isolation.level":
            self._share_readers.pop(group, None)
            if fact.value == "read_committed":
                self._share_readers[group] = None


def _is_done(leader: facts.FinalReplica, position: int) -> bool:
    """Return whether a reader of committed records gets nothing more from a position on.

    It stays in front of a gap that a cleaner has left below the last stable offset: the next batch
    begins there, and a fetch ends there (LogSegment.read), so no batch takes it across.
    """
    stable = leader.last_stable_offset
    return position >= stable or all(
        end <= position or stable <= base
        for base, end in zip(leader.base_offsets, leader.next_offsets, strict=True)
    )
