"""What the servers have told so far: topics, leaders, ISRs, registrations, high watermarks.

The runner decides by it whether a cluster is ready, and operators decide by it when to act.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of


class Progress:
    """Follows topics, partitions and brokers."""

    def __init__(self, trace: FactSource, zookeeper: bool = False) -> None:
        self._zookeeper = zookeeper  # there, a broker registers again after a lost session
        self.topics: dict[str, facts.TopicCreated] = {}
        self.partitions: dict[PartitionKey, facts.PartitionChanged] = {}
        self.fenced: dict[int, bool] = {}
        self.leading: dict[PartitionKey, tuple[int, str]] = {}  # (leader epoch, node)
        self.exposed: dict[PartitionKey, tuple[int, int]] = {}  # (leader epoch, high watermark)
        self.deleted: dict[str, None] = {}  # topic ids
        self.unregistered: dict[int, None] = {}  # brokers whose process ran when that was done
        self._gone: dict[int, int] = {}  # broker -> the offset of its last unregistration
        self._controller = (-1, "")  # (controller epoch, node)
        self._epochs: dict[int, int] = {}  # of each broker's last registration
        self.awaited: dict[int, int] = {}  # brokers not unfenced since their start: epoch before
        follow(trace, self)

    def unfenced(self) -> list[int]:
        """Return the ids of the brokers that the controller has unfenced, sorted."""
        return sorted(broker for broker, fenced in self.fenced.items() if not fenced)

    def has_partitions(self, topics: list[str]) -> bool:
        """Return whether every topic of these names has all the partitions it was created with."""
        created = {
            fact.topic: (topic_id, fact.partitions) for topic_id, fact in self.topics.items()
        }
        if any(name not in created for name in topics):
            return False
        wanted = [created[name] for name in topics]
        return all((id_, number) in self.partitions for id_, n in wanted for number in range(n))

    def exposed_of(self, topic_ids: list[str]) -> dict[PartitionKey, int]:
        """Return the high watermarks of the partitions of some topics."""
        return {key: offset for key, (_, offset) in self.exposed.items() if key[0] in topic_ids}

    def unsettled(self) -> list[PartitionKey]:
        """Return the partitions that lack a leader with the newest epoch, or members of the ISR."""
        return [
            key
            for key, change in self.partitions.items()
            if change.leader == -1
            or self.leading.get(key, (-1, ""))[0] < change.leader_epoch
            or len(change.isr) < len(change.replicas)
        ]

    def name(self, key: PartitionKey) -> str:
        """Return ``topic-partition`` for a topic id and partition."""
        created = self.topics.get(key[0])
        return f"{created.topic if created else key[0]}-{key[1]}"

    def partitions_of(self, topic: str) -> range:
        """Return the numbers of the partitions that a topic has, or had when it was deleted."""
        created = {key: fact for key, fact in self.topics.items() if fact.topic == topic}
        counts = [fact.partitions for fact in created.values()]
        grown = [number + 1 for topic_id, number in self.partitions if topic_id in created]
        return range(max([*counts, *grown], default=0))

    def on_TopicCreated(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self.topics.setdefault(fact.topic_id, fact)

    def on_TopicDeleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        """Forget a topic: nothing can be missing of it any more."""
        self.deleted[fact.topic_id] = None
        for known in (self.partitions, self.leading, self.exposed):
            for key in [key for key in known if key[0] == fact.topic_id]:
                del known[key]

    def on_PartitionChanged(
        self, _seq: int, _t: int, _node: str, fact: facts.PartitionChanged
    ) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.topic_id in self.deleted:
            return
        known = self.partitions.get(key)
        if known is None or fact.partition_epoch > known.partition_epoch:
            self.partitions[key] = fact

    def on_ControllerActive(
        self, _seq: int, _t: int, node: str, fact: facts.ControllerActive
    ) -> None:
        if fact.active:
            self._controller = max(self._controller, (fact.epoch, node))

    def on_BrokerRegistration(
        self, _seq: int, _t: int, node: str, fact: facts.BrokerRegistration
    ) -> None:
        if self._zookeeper and node != self._controller[1]:
            return  # a deposed controller ends what it has begun, and knows no later registration
        self.fenced[fact.broker] = fact.fenced
        self._await(fact)
        if fact.change == "unregistered" and fact.offset > self._gone.get(fact.broker, -1):
            self._gone[fact.broker] = fact.offset  # a new controller tells of it again
            self.unregistered[fact.broker] = None
        elif fact.change == "registered":
            self.unregistered.pop(fact.broker, None)

    def _await(self, fact: facts.BrokerRegistration) -> None:
        """Note whether a broker has yet to be unfenced; one that was unregistered never is.

        An elected ZooKeeper controller tells of old registrations, too."""
        self._epochs[fact.broker] = fact.broker_epoch
        unfenced = not fact.fenced and fact.broker_epoch != self.awaited.get(fact.broker)
        if fact.change == "unregistered" or unfenced:
            self.awaited.pop(fact.broker, None)
        elif fact.change == "fenced":
            self.awaited.setdefault(fact.broker, -1)

    def on_HostStarted(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        if node.startswith("broker-"):
            self.awaited[broker_of(node)] = self._epochs.get(broker_of(node), -1)
            self.unregistered.pop(broker_of(node), None)

    def on_BecameLeader(self, _seq: int, _t: int, node: str, fact: facts.BecameLeader) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.topic_id in self.deleted:
            return
        if fact.leader_epoch >= self.leading.get(key, (-1, ""))[0]:
            self.leading[key] = (fact.leader_epoch, node)
        exposed = self.exposed.get(key, (-1, 0))
        if fact.leader_epoch >= exposed[0] and fact.start_offset < exposed[1]:
            # The loss was legal, or an invariant has reported it: no group can read these records.
            # A ZooKeeper controller lets a leader that was restarted lead on in its epoch.
            self.exposed[key] = (fact.leader_epoch, fact.start_offset)

    def on_HighWatermark(self, _seq: int, _t: int, _n: str, fact: facts.HighWatermark) -> None:
        key = (fact.topic_id, fact.partition)
        if fact.topic_id in self.deleted:
            return
        if fact.leader_epoch >= self.exposed.get(key, (-1, 0))[0]:
            self.exposed[key] = (fact.leader_epoch, fact.high_watermark)
