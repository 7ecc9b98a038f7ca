"""A tiny cluster that writes down what arrives and what happens, and the commands that drive it.

Three brokers, and one controller (``mode kraft``, the default) or one ZooKeeper server (``mode
zookeeper``, where the broker that holds /controller is the controller). ``orders-0`` has replicas
1, 2, 3 unless ``create`` says otherwise.
"""

from kafkasim.model.errors import Errors
from kafkasim.model.facts import FACTS
from kafkasim.model.messages import (
    AlterableConfig,
    AlterPartitionReassignmentsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ReassignablePartition,
)
from tests.model.broker_cluster import SECOND, TP, Cluster
from tests.model.cluster_verbs import ClusterVerbs
from tests.model.zk_cluster import ZkCluster

FACT_KINDS = tuple(FACTS.values())
OF_THE_PARTITION = {
    "Appended": "leader_epoch base_offset next_offset record_ids",
    "Replicated": "leader_epoch batch_epoch base_offset next_offset",
    "HighWatermark": "leader_epoch high_watermark acknowledged",
    "PartitionChanged": "reason leader leader_epoch partition_epoch isr",
    "BecameLeader": "leader_epoch start_offset high_watermark isr",
    "BecameFollower": "leader_epoch leader log_end_offset",
    "Truncated": "offset",
    "LogLoaded": "log_end_offset high_watermark clean",
    "LogDeleted": "log_end_offset",
}
"""What is shown of each kind of fact about orders-0."""

OF_THE_CLUSTER = {
    "BrokerRegistration": "broker change",
    "ControllerActive": "epoch active",
    "ZooKeeperConnection": "state",
}
"""What is shown of each kind of fact about brokers and controllers, after the topic is there."""


class Told(ClusterVerbs):
    """A cluster that writes down what arrives and what happens."""

    def __init__(self, **settings):
        self.lines = []
        self.begin = 0
        self.listening = False
        self.known_topic_id = None
        self.shown_last = {}  # (client, server) -> the last Fetch or answer that was shown
        super().__init__(**settings)

    def tell(self, who, what):
        self.lines.append(f"  {(self.now - self.begin) / 1000:8.1f}  {who:<9}  {what}")

    def delivered(self, wire, forward, message):
        at, whom = (wire.server, wire.client) if forward else (wire.client, wire.server)
        for what in described(message):
            if not what.startswith("Fetch") or self.shown_last.get((at, whom)) != what:
                self.shown_last[(at, whom)] = what
                self.tell(at, f"<- {whom}: {what}")

    def perform(self, name, effect):
        kind = type(effect)
        if kind in FACT_KINDS:
            shown = OF_THE_PARTITION.get(kind.__name__)
            if (shown and (effect.topic_id, effect.partition) == (self.topic_id, 0)) or (
                (shown := OF_THE_CLUSTER.get(kind.__name__)) and self.listening
            ):
                self.tell(name, fields(effect, shown))
        super().perform(name, effect)

    @property
    def topic_id(self):
        """The id of ``orders``, remembered when all its brokers are down; None before creation."""
        for process in self.processes.values():
            replicas = getattr(process, "replicas", None)
            if replicas is not None and TP in replicas.partitions:
                self.known_topic_id = replicas.partitions[TP].topic_id
        return self.known_topic_id


class ToldKraft(Told, Cluster):
    """KRaft mode."""


class ToldZooKeeper(Told, ZkCluster):
    """ZooKeeper mode."""


def fields(fact, names):
    shown = [f"{name}={getattr(fact, name)}" for name in names.split()]
    return f"{type(fact).__name__} {' '.join(shown)}"


def described(message):
    """Yield what a message says about orders-0 or a shutdown, nothing if it says neither."""
    name = type(message).__name__
    for part in getattr(message, "partitions", ()) or ():
        if getattr(part, "tp", None) == TP:
            yield from about_partition(name, part)
        elif name == "AlterPartitionRequest":
            members = tuple(broker for broker, _ in part.new_isr)
            yield f"AlterPartition isr={members} partition_epoch={part.partition_epoch}"
        elif name == "AlterPartitionResponse":
            yield f"AlterPartitionResponse {error(part)}isr={part.isr}"
    if name == "BrokerHeartbeatRequest" and message.want_shut_down:
        yield "BrokerHeartbeat want_shut_down=True"
    elif name == "BrokerHeartbeatResponse" and message.should_shut_down:
        yield "BrokerHeartbeatResponse should_shut_down=True"
    elif name == "ControlledShutdownRequest":
        yield f"ControlledShutdown broker={message.broker_id}"
    elif name == "ControlledShutdownResponse":
        left = [f"{tp.topic}-{tp.partition}" for tp in message.remaining_partitions]
        yield f"ControlledShutdownResponse {error(message)}remaining={left}"


def about_partition(name, part):
    if name == "FetchRequest":
        yield f"Fetch offset={part.fetch_offset} epoch={part.current_leader_epoch}"
    elif name == "FetchResponse":
        values = [r.value for b in part.batches for r in b.records]
        found = f"FetchResponse {error(part)}high_watermark={part.high_watermark}"
        found += f" records={values}" if values else ""
        yield found + (f" diverging={part.diverging_epoch}" if part.diverging_epoch else "")
    elif name == "LeaderAndIsrRequest":
        yield f"LeaderAndIsr leader={part.leader} leader_epoch={part.leader_epoch} isr={part.isr}"
    elif name == "StopReplicaRequest":
        yield f"StopReplica leader_epoch={part.leader_epoch} delete={part.delete_partition}"


def error(part):
    return "" if part.error is Errors.NONE else f"{part.error.name} "


class Script:
    """Executes commands on a cluster of its own."""

    def __init__(self):
        self.settings = {}
        self.kind = ToldKraft
        self.assignment = (1, 2, 3)
        self.cluster = None

    def run(self, line):
        """Execute one command; return what happened meanwhile and its answer, as lines."""
        command, *args = line.split()
        if command == "config":
            self.settings[args[0].replace(".", "_")] = (
                int(args[1]) if args[1].isdigit() else args[1]
            )
            return []
        if command == "mode":
            self.kind = {"kraft": ToldKraft, "zookeeper": ToldZooKeeper}[args[0]]
            return []
        if command == "create":
            self.assignment = numbers(args[0])
            return []
        if self.cluster is None:
            self.begin()
        self.cluster.lines.clear()
        answer = getattr(self, f"do_{command}")(*args) or []
        return [*self.cluster.lines, *(f"  = {text}" for text in answer)]

    def begin(self):
        """Build the cluster, create the topic, and count the time from the next whole second."""
        self.cluster = self.kind(**self.settings)
        self.cluster.create(assignment=self.assignment)
        self.cluster.run(-(-self.cluster.now // SECOND) * SECOND)
        self.cluster.begin = self.cluster.now
        self.cluster.listening = True

    def do_produce(self, broker, acks, *values):
        answer = self.cluster.produce(int(broker), *map(int, values), acks=int(acks))
        return [f"{answer[0].name}, base offset {answer[1]}" if answer else "no answer in 1 s"]

    def do_consume(self, broker, offset):
        found = self.cluster.consume(int(broker), int(offset))
        return [str([each.name if isinstance(each, Errors) else each for each in found])]

    def do_run(self, ms):
        self.cluster.run(self.cluster.now + int(ms) * 1000)

    def do_crash(self, number):
        self.cluster.crash(f"broker-{number}")

    def do_start(self, number):
        self.cluster.restart(f"broker-{number}")

    def do_stop(self, number):
        """SIGTERM: the broker asks for a controlled shutdown."""
        name = f"broker-{number}"
        self.cluster.processes[name].shutdown(self.cluster.now)
        self.cluster.drain(name)

    def do_hold(self, number):
        self.cluster.held.append(f"broker-{number}")

    def do_release(self, number):
        self.cluster.held.remove(f"broker-{number}")

    def do_cut(self, one, other):
        """ZooKeeper mode: silence between two hosts until ``heal``."""
        self.cluster.cut(one, other)

    def do_heal(self):
        self.cluster.heal()

    def do_reassign(self, replicas):
        asked = (ReassignablePartition(TP, numbers(replicas)),)
        return self.admin(AlterPartitionReassignmentsRequest(asked), lambda a: a.results[0][1])

    def do_elect(self, kind):
        request = ElectLeadersRequest({"preferred": 0, "unclean": 1}[kind], (TP,), 30000)
        return self.admin(request, lambda answer: answer.results[0][1])

    def do_alter(self, key, value):
        """Set a topic config of ``orders``."""
        resource = AlterableConfig("TOPIC", "orders", ((key, value),))
        return self.admin(IncrementalAlterConfigsRequest((resource,)), lambda a: a.results[0][2])

    def admin(self, request, outcome):
        answer = self.cluster.operate(request)
        return ["no answer in 5 s" if answer is None else outcome(answer).name]

    def do_state(self):
        for name, process in self.cluster.processes.items():
            if name.startswith("broker-") and TP in process.replicas.partitions:
                log = process.replicas.partitions[TP].log
                values = self.cluster.values(int(name.rpartition("-")[2]))
                epochs = log.epochs.entries
                yield f"{name}: log={values} high_watermark={log.high_watermark} epochs={epochs}"


def numbers(text):
    return tuple(int(number) for number in text.split(","))
