"""Liveness: whether a healed cluster has converged, and what is missing.

A cluster has converged when every broker that runs is registered and unfenced, every partition has
a leader and its full ISR, every producer has flushed, and every group has read to the high
watermark of the topics that it subscribes to. ``transactions/liveness/under_way.py`` has the
commits that processors must have made.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_answers import LostAnswers
from kafkasim.analysis.judging.transactions.liveness.failed_replicas import FailedReplicas
from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.analysis.judging.transactions.liveness.shares.leaders import SHARES
from kafkasim.analysis.judging.transactions.liveness.under_way import GIVEN
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of

_LAG = re.compile(r"group (\S+) is at (\d+) of (\d+) in (\S+) \(last read by ")
_OPEN = re.compile(r"(\S+) has an open transaction of producer id \d+ from offset (\d+) on$")


class Progress:
    """Follows leaders, ISRs, high watermarks and positions."""

    def __init__(self, trace: FactSource, zookeeper: bool = False) -> None:
        self._trace = trace
        self._zookeeper = zookeeper  # there, a broker registers again after a lost session
        self.topics: dict[str, facts.TopicCreated] = {}
        self.partitions: dict[PartitionKey, facts.PartitionChanged] = {}
        self.fenced: dict[int, bool] = {}
        self.leading: dict[PartitionKey, tuple[int, str]] = {}  # (leader epoch, node)
        self.exposed: dict[PartitionKey, tuple[int, int]] = {}  # (leader epoch, high watermark)
        self.deleted: dict[str, None] = {}  # topic ids
        self.places = Positions(trace)
        self.positions = self.places.last  # (position, node) by group and partition
        self._failed = FailedReplicas(trace)
        self.lost_answers = LostAnswers(trace, zookeeper)
        self.superseded: dict[int, None] = {}  # brokers with the registration of a dead process
        self.unregistered: dict[int, None] = {}  # brokers whose process ran when that was done
        self._gone: dict[int, int] = {}  # broker -> the offset of its last unregistration
        self._transactional: dict[int, None] = {}  # producer ids
        self._open: dict[tuple[PartitionKey, int], int] = {}
        """The first offset of each open transaction, by partition and producer id"""
        self._places: dict[PartitionKey, int] = {}  # partitions in the order of their first change
        self._unsettled: dict[PartitionKey, None] = {}  # partitions that lack something
        self._controller = (-1, "")  # (controller epoch, node)
        self._registered: dict[int, int] = {}  # broker -> epoch, since its process started
        self._epochs: dict[int, int] = {}  # of each broker's last registration
        self._awaited: dict[int, int] = {}  # brokers not unfenced since their start: epoch before
        self._logs: dict[PartitionKey, facts.FinalReplica] = {}  # the leaders', at the end
        for kind, handler in (
            (facts.TopicCreated, self._on_topic),
            (facts.TopicDeleted, self._on_topic_deleted),
            (facts.PartitionChanged, self._on_partition),
            (facts.BrokerRegistration, self._on_broker),
            (facts.BecameLeader, self._on_leader),
            (facts.HighWatermark, self._on_high_watermark),
            (facts.HostStarted, self._on_started),
            (facts.ControllerActive, self._on_controller),
            (facts.TransactionBegun, self._on_begun),
            (facts.MarkerWritten, self._on_marker),
            (facts.FinalReplica, self._on_final),
        ):
            trace.subscribe(kind, handler)

    def unfenced(self) -> list[int]:
        """Return the ids of the brokers that the controller has unfenced, sorted."""
        return sorted(broker for broker, fenced in self.fenced.items() if not fenced)

    def missing_brokers(self, alive: list[str]) -> list[str]:
        """Return which of the hosts that run are brokers the controller has not unfenced yet.

        Nothing else may tell of a leader that was killed and started again at the end: it has its
        old registration until the new one, and a producer with acks=0 needs no answer.
        """
        return [_not_unfenced(broker) for broker in self._awaited if f"broker-{broker}" in alive]

    def missing_partitions(self) -> list[str]:
        """Return what partitions lack: a leader that has applied its epoch, or ISR members."""
        return [self._lack(key) for key in sorted(self._unsettled, key=self._places.__getitem__)]

    def has_partitions(self, topics: list[str]) -> bool:
        """Return whether every topic of these names has all the partitions it was created with."""
        created = {
            fact.topic: (topic_id, fact.partitions) for topic_id, fact in self.topics.items()
        }
        if any(name not in created for name in topics):
            return False
        wanted = [created[name] for name in topics]
        return all((id_, number) in self.partitions for id_, n in wanted for number in range(n))

    def _lack(self, key: PartitionKey) -> str:
        """Return what one partition lacks, or ""."""
        change, name = self.partitions[key], self.name(key)
        if change.leader == -1:
            return f"{name} has no leader"
        if self.leading.get(key, (-1, ""))[0] < change.leader_epoch:
            return f"{name}: broker {change.leader} does not lead epoch {change.leader_epoch} yet"
        if len(change.isr) < len(change.replicas):
            return _short_of_replicas(name, change)
        return ""

    def _settle(self, key: PartitionKey) -> None:
        """Note whether a partition lacks something, after a fact about it."""
        if key in self.partitions and self._lack(key):
            self._unsettled[key] = None
        else:
            self._unsettled.pop(key, None)

    def stall_excuse(
        self,
        missing: list[str],
        excuse: Callable[[PartitionKey], str],
        waits: Callable[[str], str] = lambda _line: "",
    ) -> str:
        """Return why Kafka would not reach what is missing either, or "".

        ``waits`` explains lines that wait for what nobody will do. Each module of
        ``transactions/liveness``, and of its packages ``groups`` and ``controllers``, knows one of
        these situations. Three others last until an operator acts, and are known here:

        - A follower has failed (``failed_replicas.py``); ``excuse`` names the partition's loss.
        - A broker was registered, late, by its own dead predecessor. Its heartbeats get
          STALE_BROKER_EPOCH, and it does not register again (BrokerLifecycleManager).
        - A ZooKeeper controller lost the answer to its write of an ISR, and the leader proposes no
          more changes in this leader epoch (``controllers/lost_answers.py``).

        A group waits with the first of them where the high watermark stands within a batch
        (:meth:`_within_batch`).
        """
        reasons = {_not_unfenced(broker): "late-registration" for broker in self.superseded}
        for key, change in self.partitions.items():
            absent = [broker for broker in change.replicas if broker not in change.isr]
            lost = excuse(key)
            why = [
                "late-registration" if broker in self.superseded
                else self._failed.why(key, broker, lost)
                or self.lost_answers.why(key, change.leader_epoch)
                for broker in absent
            ]  # fmt: skip
            if absent and all(why):
                reasons[_short_of_replicas(self.name(key), change)] = why[0]
        found = [
            reasons.get(each, "") or self._within_batch(each, reasons) or waits(each)
            for each in missing
        ]
        return found[0] if found and all(found) else ""

    def _within_batch(self, line: str, reasons: Mapping[str, str]) -> str:
        """Return why a group cannot read on to a high watermark within a batch, or "".

        A leader that lost records and went on in its epoch may write a batch across the end of its
        followers' logs. They have told it that end, so its high watermark goes there; then they
        fail. With an ISR below min.insync.replicas it moves no more (Partition.isUnderMinIsr), and
        a read ends before the batch that holds it (UnifiedLog.fetchHighWatermarkMetadata).
        """
        found = _LAG.match(line)
        names = {self.name(key): key for key in self.partitions} if found else {}
        key = None if found is None else names.get(found[4])
        if found is None or key is None or key not in self._logs:
            return ""
        change, created, log = self.partitions[key], self.topics.get(key[0]), self._logs[key]
        if created is None or len(change.isr) >= min(created.min_isr, len(change.replicas)):
            return ""
        position, high_watermark = int(found[2]), int(found[3])
        batches = zip(log.base_offsets, log.next_offsets)
        if not any(base <= position < high_watermark < end for base, end in batches):
            return ""
        return reasons.get(_short_of_replicas(self.name(key), change), "")

    def lag(self, group: str, topic_ids: list[str]) -> list[str]:
        """Return the partitions that a group has not read to their high watermark."""
        missing = []
        for key, (_, high_watermark) in self.exposed.items():
            if key[0] in topic_ids:
                position, node = self.positions.get((group, key), (0, "nobody"))
                if position < high_watermark:
                    missing.append(
                        f"group {group} is at {position} of {high_watermark} in {self.name(key)}"
                        f" (last read by {node})"
                    )
        return missing

    def unread(self, missing: Iterable[str]) -> dict[tuple[str, PartitionKey], int]:
        """Return where the groups are that have not read on, by group and partition."""
        names = {self.name(key): key for key in self.partitions}
        found = [line for each in missing if (line := _LAG.match(each)) and line[4] in names]
        return {(line[1], names[line[4]]): int(line[2]) for line in found}

    def left_open(self, missing: Iterable[str]) -> dict[PartitionKey, int]:
        """Return from which offset on the partitions that are missing have open transactions."""
        names = {self.name(key): key for key in self.partitions}
        first: dict[PartitionKey, int] = {}
        for each in missing:
            line = _OPEN.match(each)
            if line is not None and line[1] in names:
                key, offset = names[line[1]], int(line[2])
                first[key] = min(offset, first.get(key, offset))
        return first

    def exposed_of(self, topic_ids: list[str]) -> dict[PartitionKey, int]:
        """Return the high watermarks of the partitions of some topics."""
        return {key: offset for key, (_, offset) in self.exposed.items() if key[0] in topic_ids}

    def open_transactions(self, first_open: Callable[[PartitionKey, int, int], int]) -> list[str]:
        """Return the partitions whose last stable offset a transaction holds back.

        ``first_open(partition, producer id, end)`` says from which offset on a transaction is open
        in what stands below ``end``, −1 for none (``history/contents.py``): a leader that was
        deposed and leads again has the markers that it wrote in between. It is asked once the
        records are committed.
        """
        found = []
        for (key, producer_id), offset in self._open.items():
            if key in self.partitions:
                committed = self.exposed.get(key, (-1, 0))[1]
                first = first_open(key, producer_id, committed) if offset < committed else offset
                if first >= 0:
                    found.append(
                        f"{self.name(key)} has an open transaction of producer id {producer_id}"
                        f" from offset {first} on"
                    )
        return found

    def name(self, key: PartitionKey) -> str:
        """Return ``topic-partition`` for a topic id and partition."""
        created = self.topics.get(key[0])
        return f"{created.topic if created else key[0]}-{key[1]}"

    def names_of(self, topic: str) -> list[str]:
        """Return ``topic-partition`` of all partitions of a topic that exist."""
        names = [self.name(key) for key in self.partitions]
        return [name for name in names if name.rpartition("-")[0] == topic]

    def partitions_of(self, topic: str) -> range:
        """Return the numbers of the partitions that a topic has, or had when it was deleted."""
        created = {key: fact for key, fact in self.topics.items() if fact.topic == topic}
        counts = [fact.partitions for fact in created.values()]
        grown = [number + 1 for topic_id, number in self.partitions if topic_id in created]
        return range(max([*counts, *grown], default=0))

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.topics.setdefault(fact.topic_id, fact)

    def _on_topic_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        """Forget a topic: nothing can be missing of it any more."""
        self.deleted[fact.topic_id] = None
        for known in (self.partitions, self.leading, self.exposed, self._unsettled):
            for key in [key for key in known if key[0] == fact.topic_id]:
                del known[key]

    def _on_partition(self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.topic_id in self.deleted:
            return
        known = self.partitions.get(key)
        if known is None or fact.partition_epoch > known.partition_epoch:
            self.partitions[key] = fact
            self._places.setdefault(key, len(self._places))
            self._settle(key)

    def _on_controller(self, _seq: int, _t: int, node: str, fact: facts.ControllerActive) -> None:
        if fact.active:
            self._controller = max(self._controller, (fact.epoch, node))

    def _on_broker(self, _seq: int, _t: int, node: str, fact: facts.BrokerRegistration) -> None:
        if self._zookeeper and node != self._controller[1]:
            return  # a deposed controller ends what it has begun, and knows no later registration
        self.fenced[fact.broker] = fact.fenced
        self._await(fact)
        if fact.change == "unregistered" and fact.offset > self._gone.get(fact.broker, -1):
            self._gone[fact.broker] = fact.offset  # a new controller tells of it again
            self.unregistered[fact.broker] = None
        elif fact.change == "registered":
            self.unregistered.pop(fact.broker, None)
        if fact.change == "registered" and not self._zookeeper:
            known = self._registered.get(fact.broker)
            if known is not None and known < fact.broker_epoch == fact.offset:
                self.superseded[fact.broker] = None
            self._registered[fact.broker] = fact.broker_epoch

    def _await(self, fact: facts.BrokerRegistration) -> None:
        """Note whether a broker has yet to be unfenced; one that was unregistered never is.

        An elected ZooKeeper controller tells of old registrations, too."""
        self._epochs[fact.broker] = fact.broker_epoch
        unfenced = not fact.fenced and fact.broker_epoch != self._awaited.get(fact.broker)
        if fact.change == "unregistered" or unfenced:
            self._awaited.pop(fact.broker, None)
        elif fact.change == "fenced":
            self._awaited.setdefault(fact.broker, -1)

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        if node.startswith("broker-"):
            self._awaited[broker_of(node)] = self._epochs.get(broker_of(node), -1)
            self._registered.pop(broker_of(node), None)
            self.superseded.pop(broker_of(node), None)
            self.unregistered.pop(broker_of(node), None)

    def _on_leader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.topic_id in self.deleted:
            return
        if fact.leader_epoch >= self.leading.get(key, (-1, ""))[0]:
            self.leading[key] = (fact.leader_epoch, node)
            self._settle(key)
            for place in [place for place in self._open if place[0] == key]:
                if self._open[place] >= fact.start_offset:
                    del self._open[place]  # the new leader does not have it
        exposed = self.exposed.get(key, (-1, 0))
        if fact.leader_epoch >= exposed[0] and fact.start_offset < exposed[1]:
            # The loss was legal, or an invariant has reported it: no group can read these records.
            # A ZooKeeper controller lets a leader that was restarted lead on in its epoch.
            self.exposed[key] = (fact.leader_epoch, fact.start_offset)

    def _on_begun(self, _seq: int, _t: int, _node: str, fact: facts.TransactionBegun) -> None:
        if not self._transactional:
            self._trace.subscribe(facts.Appended, self._on_appended)
        self._transactional[fact.producer_id] = None

    def _on_appended(self, _seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        if fact.producer_id in self._transactional and fact.record_ids and self._lasts(fact):
            place = ((fact.topic_id, fact.partition), fact.producer_id)
            self._open.setdefault(place, fact.base_offset)

    def _on_marker(self, _seq: int, _t: int, _node: str, fact: facts.MarkerWritten) -> None:
        if self._lasts(fact):
            self._open.pop(((fact.topic_id, fact.partition), fact.producer_id), None)

    def _on_final(self, _seq: int, _t: int, _node: str, fact: facts.FinalReplica) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.leading and fact.leader_epoch >= self.leading.get(key, (-1, ""))[0]:
            self._logs[key] = fact

    def _lasts(self, fact: facts.Appended | facts.MarkerWritten) -> bool:
        """Return whether no later leader has begun: a deposed one truncates what it still gets."""
        leading = self.leading.get((fact.topic_id, fact.partition), (-1, ""))[0]
        return fact.leader_epoch >= leading

    def _on_high_watermark(self, _seq: int, _t: int, _n: str, fact: facts.HighWatermark) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.topic_id in self.deleted:
            return
        if fact.leader_epoch >= self.exposed.get(key, (-1, 0))[0]:
            self.exposed[key] = (fact.leader_epoch, fact.high_watermark)


def _not_unfenced(broker: int) -> str:
    return f"broker-{broker} is not unfenced since it started"


def _short_of_replicas(name: str, change: facts.PartitionChanged) -> str:
    return f"{name}: ISR {list(change.isr)} of {list(change.replicas)}"


def unread(
    missing: Iterable[str], in_a_poll: Callable[[str], bool] = lambda _: False
) -> dict[str, int]:
    """Return how many offsets each group has not read; nothing if anything else is missing.

    What a processor was given and has not committed counts, too. ``in_a_poll`` knows the lines that
    say only that processors are at it (``under_way.py:UnderWay``).
    """
    records: dict[str, int] = {}
    for line in missing:
        found = _LAG.match(line) or SHARES.match(line)
        given = GIVEN.match(line)
        if found is not None:
            group, count = found[1], int(found[3]) - int(found[2])
        elif given is not None:
            group, count = given[1], int(given[2]) - max(int(given[3]), 0)
        elif in_a_poll(line):
            continue
        else:
            return {}
        records[group] = records.get(group, 0) + count
    return records
