"""ISRs that a leader no longer changes, because of what a ZooKeeper controller answered.

A leader keeps some refused proposals pending and waits for newer metadata
(Partition.handleAlterPartitionError). None comes before its next leader epoch: a LeaderAndIsr of
the same one says nothing new to it (ReplicaManager.becomeLeaderOrFollower).

The controller's write of a proposed ISR took effect, and its answer was lost with the connection.
The controller writes again, finds another version, and answers the leader INVALID_UPDATE_VERSION
(KafkaController.tryProcessAlterPartition; KafkaZkClient.retryRequestsUntilConnected).

The controller may read its own write back before the leader has the answer, when a broker fails
(ReplicaStateMachine.doRemoveReplicasFromIsr). The trace then has a change in the same leader epoch
that no answer to a write told. A controller that did have the answer knows a proposal that the
leader repeats (KAFKA-12751).

A controller that was deposed and does not know it yet does not know a topic that the next one has
created, and answers UNKNOWN_TOPIC_ID, or UNKNOWN_TOPIC_OR_PARTITION.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

LOST_ANSWER = "lost-zookeeper-answer"
UNKNOWN_TOPIC = "topic-unknown-to-a-deposed-controller"

UNKNOWN = ("UNKNOWN_TOPIC_ID", "UNKNOWN_TOPIC_OR_PARTITION")


class LostAnswers:
    """Follows the ISRs that leaders propose and that a ZooKeeper controller writes."""

    def __init__(self, trace: FactSource, zookeeper: bool) -> None:
        self._known: dict[PartitionKey, tuple[int, facts.PartitionChanged]] = {}  # row, last change
        self._written: dict[int, None] = {}  # zxids of the writes whose answer a controller had
        self._read_back: dict[PartitionKey, tuple[int, int]] = {}
        """The leader and partition epochs of the last change that was read, not written"""
        self._proposed: dict[PartitionKey, facts.IsrProposed] = {}
        self._refused: dict[PartitionKey, tuple[int, int]] = {}
        """The leader epoch of the last refused proposal, and the partition epoch that follows"""
        self._suspected: dict[PartitionKey, None] = {}  # refused after a new connection
        self._connected: dict[str, int] = {}  # node -> the row of its last connection
        self._controller = (-1, "")  # (controller epoch, node)
        self._elected = -1  # the row in which that one was elected
        self._active: dict[str, int] = {}  # node -> epoch of who takes itself for the controller
        self._created: dict[str, int] = {}  # topic id -> row
        self._unknown: dict[PartitionKey, int] = {}  # the leader epoch of a refused proposal
        if not zookeeper:
            return
        trace.subscribe(facts.PartitionChanged, self._on_partition)
        trace.subscribe(facts.ZkControllerWrite, self._on_write)
        trace.subscribe(facts.IsrProposed, self._on_proposed)
        trace.subscribe(facts.IsrUpdateFailed, self._on_refused)
        trace.subscribe(facts.ZooKeeperConnection, self._on_connection)
        trace.subscribe(facts.ControllerActive, self._on_controller)
        trace.subscribe(facts.TopicCreated, self._on_created)
        trace.subscribe(facts.HostStopped, self._on_stopped)

    def why(self, key: PartitionKey, leader_epoch: int) -> str:
        """Return why the leader of an epoch waits for the next one, or ""."""
        if self._unknown.get(key) == leader_epoch:
            return UNKNOWN_TOPIC
        refused = self._refused.get(key, (-1, -1))
        was_read = refused == self._read_back.get(key)
        lost = refused[0] == leader_epoch and (was_read or key in self._suspected)
        return LOST_ANSWER if lost else ""

    def _on_write(self, _seq: int, _t: int, _node: str, fact: facts.ZkControllerWrite) -> None:
        self._written[fact.offset] = None

    def _on_partition(self, seq: int, _t: int, _node: str, fact: facts.PartitionChanged) -> None:
        """Note a change that was read. A proposed ISR keeps its leader epoch; what a controller
        loads when it is elected may be anybody's write."""
        key = (fact.topic_id, fact.partition)
        _, known = self._known.get(key, (-1, None))
        if known is not None and fact.partition_epoch <= known.partition_epoch:
            return
        self._known[key] = (seq, fact)
        same_epoch = known is not None and fact.leader_epoch == known.leader_epoch
        if same_epoch and fact.reason != "loaded" and fact.offset not in self._written:
            self._read_back[key] = (fact.leader_epoch, fact.partition_epoch)

    def _on_proposed(self, _seq: int, _t: int, _node: str, fact: facts.IsrProposed) -> None:
        self._proposed[(fact.topic_id, fact.partition)] = fact

    def _on_refused(self, _seq: int, _t: int, _n: str, fact: facts.IsrUpdateFailed) -> None:
        """Suspect a lost answer: the controller connected after the last change in the trace.

        A proposal that builds on an older change than the trace has was refused for that one.
        """
        key = (fact.topic_id, fact.partition)
        self._refused.pop(key, None)
        self._suspected.pop(key, None)
        self._unknown.pop(key, None)
        deposed = any(epoch < self._controller[0] for epoch in self._active.values())
        if fact.error in UNKNOWN and deposed and self._created.get(key[0], -1) > self._elected:
            self._unknown[key] = fact.leader_epoch
        row, known = self._known.get(key, (-1, None))
        proposed = self._proposed.get(key)
        if fact.error != "INVALID_UPDATE_VERSION" or proposed is None or known is None:
            return
        self._refused[key] = (fact.leader_epoch, proposed.partition_epoch + 1)
        connected = self._connected.get(self._controller[1], -1)
        if connected > row and proposed.partition_epoch >= known.partition_epoch:
            self._suspected[key] = None

    def _on_connection(self, seq: int, _t: int, node: str, fact: facts.ZooKeeperConnection) -> None:
        if fact.state == "CONNECTED":
            self._connected[node] = seq

    def _on_controller(self, seq: int, _t: int, node: str, fact: facts.ControllerActive) -> None:
        if not fact.active:
            self._active.pop(node, None)
            return
        self._active[node] = fact.epoch
        if (fact.epoch, node) > self._controller:
            self._controller, self._elected = (fact.epoch, node), seq

    def _on_created(self, seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._created[fact.topic_id] = seq

    def _on_stopped(self, _seq: int, _t: int, node: str, _fact: facts.HostStopped) -> None:
        self._active.pop(node, None)
