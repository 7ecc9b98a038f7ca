"""The two sides of a comparison: real Kafka, and the model in its little world.

Both take the model's requests and give the model's responses, so that one conversation runs on
either; ``shown`` turns an answer into text without what cannot be equal (ids, times, messages).
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from kafkasim.model import messages as m
from kafkasim.model.broker import BrokerRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.effects import ANONYMOUS, Close, Peer
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskError
from kafkasim.scenarios.variants.releases import BROKER, RULES
from tests.fidelity import (
    acls_on_wire,
    control_on_wire,
    quorum_on_wire,
    quotas_on_wire,
    raft_on_wire,
    servers_on_wire,
    share_on_wire,
    transactions_on_wire,
)
from tests.fidelity.adapter import OLDER, VERSIONS, from_wire, to_wire, version_of
from tests.fidelity.real_kafka import CONTROLLER, DIRECTORY_ID, RealCluster
from tests.fidelity.real_zookeeper import RealZooKeeperCluster
from tests.fidelity.wire import CLIENT_ID, Connection, Schemas
from tests.model.broker_cluster import Cluster
from tests.model.zk_cluster import ZkCluster

SETTINGS = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "1",
    "offsets.topic.replication.factor": "3",
    "group.initial.rebalance.delay.ms": "0",
    "auto.create.topics.enable": "false",
    "transaction.state.log.num.partitions": "1",
}
"""What both sides are configured with, beside their defaults."""


CLOSED = "closed"
"""The answer of a broker that closes the connection instead."""


class Side(Protocol):
    """One side of a comparison; ``zookeeper``: is it in ZooKeeper mode?

    ``throttle_ms`` is how long the last answer told its client to wait.
    """

    zookeeper: bool
    throttle_ms: int

    def ask(self, node: int, message: m.Message, user: str = "") -> Any:
        """Send a request to a node; return its answer, None without one, or CLOSED.

        ``user`` has authenticated, where there are users; "" is ANONYMOUS.
        """
        ...

    def settle(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def broker_epoch(self, broker: int) -> int:
        """Return the epoch of a broker's registration in ZooKeeper."""
        ...

    def fail_directory(self, broker: int, tp: TopicPartition) -> None:
        """Let the log directory fail in which a broker has a partition."""
        ...


class ModelSide:
    """The model: three brokers and a controller or a ZooKeeper server, no simulator in between.

    ``release`` selects the defaults and rules of the servers, as a scenario's ``kafka-version``
    does; ``rules`` stand in for the brokers' own, ``parts`` for single ones of them by name. With
    ``kraft_version`` 1 the quorum's voters may change.
    """

    def __init__(
        self,
        *,
        zookeeper: bool = False,
        release: str = "4.0",
        rules: BrokerRules | None = None,
        settings: Mapping[str, str] = SETTINGS,
        kraft_version: int = 0,
        parts: Mapping[str, Any] | None = None,
    ) -> None:
        self.zookeeper = zookeeper
        properties = {**settings, **BROKER.get(release, {})}
        typed = {key.replace(".", "_"): _typed(value) for key, value in properties.items()}
        own = {part: made() for part, made in RULES.get(release, {}).items()} | dict(parts or {})
        controller = own.pop("controller", None) or ControllerRules()
        for part in ("client", "streams"):  # no broker has them
            own.pop(part, None)
        rules = rules or BrokerRules(features=controller.supported_features(), **own)
        if zookeeper:
            self.cluster: ZkCluster | Cluster = ZkCluster(rules=rules, **typed)
        else:
            raft, directory_id = own.get("raft"), DIRECTORY_ID if kraft_version else ""
            self.cluster = Cluster(
                rules, controller=controller, raft=raft, directory_id=directory_id, **typed
            )

        for process in self.cluster.processes.values():
            process.service_us = lambda _message: 100

    @property
    def throttle_ms(self) -> int:
        return self.cluster.throttle_ms

    def ask(self, node: int, message: m.Message, user: str = "") -> Any:
        name = f"controller-{node}" if node == CONTROLLER else f"broker-{node}"
        peer = Peer(f"User:{user}" if user else ANONYMOUS, "127.0.0.1", CLIENT_ID)
        answer = self.cluster.ask(name, message, 20_000_000, peer)
        return CLOSED if isinstance(answer, Close) else answer

    def settle(self, seconds: float) -> None:
        self.cluster.step(int(seconds * 1_000_000))

    def broker_epoch(self, broker: int) -> int:
        process: Any = self.cluster.processes[f"broker-{broker}"]
        epoch: int = process.incarnation.epoch
        return epoch

    def fail_directory(self, broker: int, tp: TopicPartition) -> None:
        process = self.cluster.broker(broker)
        path = process.replicas.logs.directory_of(tp).path
        process.log_dir_failed(DiskError(f"{path}/{_at(tp)}", "I/O error"), self.cluster.now)
        self.cluster.drain(f"broker-{broker}")


class RealSide:
    """Real Kafka on loopback, one connection of each user to each broker."""

    def __init__(self, cluster: RealCluster) -> None:
        self.zookeeper = isinstance(cluster, RealZooKeeperCluster)
        self.cluster = cluster
        self.schemas = Schemas(cluster.clients_jar)
        self.throttle_ms = 0
        self.connections: dict[tuple[int, str], Connection] = {}
        self.ids: dict[str, str] = {}  # of the topics that were fetched, by name
        self._wait_until_registered()

    def ask(self, node: int, message: m.Message, user: str = "") -> Any:
        if isinstance(message, m.FetchRequest):
            self.ids = {p.tp.topic: p.topic_id for p in message.partitions} | self.ids
        api, body = to_wire(message)
        key = node, user
        if key not in self.connections:
            ports = self.cluster.user_ports if user else self.cluster.ports
            self.connections[key] = Connection(self.schemas, ports[node], user=user)
        answered = not (isinstance(message, m.ProduceRequest) and message.acks == 0)
        connection = self.connections[key]
        version = version_of(message, api)
        if self.zookeeper:
            version = OLDER.get(api, version)
        answer = connection.ask(api, body, version, answered=answered)
        if not answered:  # the next request on the connection is answered if that is still open
            answer = connection.ask("Metadata", {"Topics": []}, VERSIONS["Metadata"])
        if answer is None:
            self.connections.pop(key).close()
            return CLOSED
        self.throttle_ms = answer.get("ThrottleTimeMs", 0)
        return from_wire(message, answer, self.ids) if answered else None

    def settle(self, seconds: float) -> None:
        time.sleep(seconds)

    def broker_epoch(self, broker: int) -> int:
        assert isinstance(self.cluster, RealZooKeeperCluster)
        return self.cluster.broker_epoch(broker)

    def fail_directory(self, broker: int, tp: TopicPartition) -> None:
        self.cluster.fail_directory(broker, _at(tp))

    def _wait_until_registered(self) -> None:
        for _ in range(120):
            answer = self.ask(1, m.MetadataRequest(()))
            if len(answer.brokers) == len(self.cluster.ports) - 1:  # and a controller
                return
            self.settle(0.5)
        raise AssertionError("the brokers did not register within a minute")


def _typed(value: object) -> Any:
    text = str(value)
    return {"true": True, "false": False}.get(text, int(text) if text.isdigit() else text)


class Names:
    """What ids that the two sides draw are called in the text of a conversation."""

    def __init__(self) -> None:
        self.topics: dict[str, str] = {}  # topic id -> name
        self.members: dict[str, str] = {}  # member id -> client
        self.producers: dict[int, str] = {}  # producer id -> p1, p2, …

    def member(self, member_id: str) -> str:
        return self.members.get(member_id, member_id or "-")

    def producer(self, producer_id: int) -> str:
        if producer_id < 0:
            return str(producer_id)
        return self.producers.setdefault(producer_id, f"p{len(self.producers) + 1}")


def shown(answer: Any, names: Names) -> str:
    """Return an answer as text; None is no answer."""
    if answer is None or answer == CLOSED:
        return answer or "no answer"
    return "; ".join(_SHOWN[type(answer)](answer, names)) or "-"


def _at(tp: TopicPartition) -> str:
    return f"{tp.topic}-{tp.partition}"


def _fetch(answer: m.FetchResponse, names: Names) -> Any:
    if answer.error is not Errors.NONE or not answer.partitions:
        yield answer.error.name
    for p in sorted(answer.partitions, key=lambda p: p.tp):
        text = f"{_at(p.tp)} {p.error.name} hw={p.high_watermark} start={p.log_start_offset}"
        records = [
            f"{batch.base_offset}:{','.join(str(r.value) for r in batch.records)}"
            for batch in p.batches
        ]
        text += f" records=[{' '.join(records)}]" if records else ""
        yield text + (f" diverging={p.diverging_epoch}" if p.diverging_epoch else "")
    if answer.session_id:
        yield "in a session"


def _metadata(answer: m.MetadataResponse, names: Names) -> Any:
    for topic in sorted(answer.topics, key=lambda topic: topic.topic):
        partitions = [
            f"{p.partition}:{p.error.name} leader={p.leader} epoch={p.leader_epoch}"
            f" replicas={list(p.replicas)} isr={sorted(p.isr)}"
            for p in topic.partitions
        ]
        yield f"{topic.topic} {topic.error.name} [{' | '.join(partitions)}]"


def _join(answer: m.JoinGroupResponse, names: Names) -> Any:
    text = f"{answer.error.name} generation={answer.generation_id}"
    text += f" protocol={answer.protocol_name or '-'} leader={names.member(answer.leader)}"
    members = sorted(names.member(each.member_id) for each in answer.members)
    yield f"{text} member={names.member(answer.member_id)} members={members}"


def _partitions(some: m.TopicIdPartitions, names: Names) -> str:
    parts = [f"{names.topics.get(id_, id_)}-{number}" for id_, all_ in some for number in all_]
    return f"[{' '.join(sorted(parts))}]"


def _heard(answer: m.ConsumerGroupHeartbeatResponse, names: Names) -> Any:
    text = answer.error.name
    if answer.error is Errors.NONE:
        text += f" {answer.member_id} epoch={answer.member_epoch}"
        text += f" interval={answer.heartbeat_interval_ms}"
        if answer.assignment is not None:
            text += f" {_partitions(answer.assignment, names)}"
    yield text


def _consumer_groups(answer: m.ConsumerGroupDescribeResponse, names: Names) -> Any:
    for group in sorted(answer.groups, key=lambda group: group.group_id):
        text = f"{group.group_id!r} {group.error.name}"
        if group.error is Errors.NONE:
            text += f" {group.group_state} epoch={group.group_epoch}"
            text += f" target={group.assignment_epoch} {group.assignor_name}"
        for each in sorted(group.members, key=lambda each: names.member(each.member_id)):
            text += f" | {names.member(each.member_id)}/{each.instance_id or '-'}"
            text += f" epoch={each.member_epoch}"
            text += f" {list(each.subscribed_topic_names)} {each.subscribed_topic_regex!r}"
            text += f" owns {_partitions(each.assignment, names)}"
            text += f" of {_partitions(each.target_assignment, names)}"
        yield text


def _groups_described(answer: m.DescribeGroupsResponse, names: Names) -> Any:
    for group in sorted(answer.groups, key=lambda g: g.group_id):
        text = f"{group.group_id or '-'} {group.error.name} {group.state or '-'}"
        text += f" type={group.protocol_type or '-'} protocol={group.protocol or '-'}"
        members = [
            f"{names.member(each.member_id)}/{each.group_instance_id or '-'}/{each.client_id}"
            f" subscription={each.subscription is not None}"
            f" [{', '.join(map(_at, each.assignment))}]"
            for each in group.members
        ]
        yield f"{text} members={sorted(members)}"


_SHOWN: dict[type, Any] = {
    m.ConsumerGroupHeartbeatResponse: _heard,
    m.ConsumerGroupDescribeResponse: _consumer_groups,
    **acls_on_wire.SHOWN,
    **transactions_on_wire.SHOWN,
    **quotas_on_wire.SHOWN,
    **quorum_on_wire.SHOWN,
    **raft_on_wire.SHOWN,
    **servers_on_wire.SHOWN,
    **control_on_wire.SHOWN,
    **share_on_wire.SHOWN,
    m.ProduceResponse: lambda a, n: [
        f"{_at(p.tp)} {p.error.name} base={p.base_offset}"
        for p in sorted(a.partitions, key=lambda p: p.tp)
    ],
    m.FetchResponse: _fetch,
    m.ListOffsetsResponse: lambda a, n: [
        f"{_at(p.tp)} {p.error.name} offset={p.offset} epoch={p.leader_epoch}" for p in a.partitions
    ],
    m.OffsetsForLeaderEpochResponse: lambda a, n: [
        f"{_at(p.tp)} {p.error.name} epoch={p.leader_epoch} end={p.end_offset}"
        for p in a.partitions
    ],
    m.MetadataResponse: _metadata,
    m.FindCoordinatorResponse: lambda a, n: [a.error.name],
    m.JoinGroupResponse: _join,
    m.SyncGroupResponse: lambda a, n: [f"{a.error.name} [{', '.join(map(_at, a.assignment))}]"],
    m.HeartbeatResponse: lambda a, n: [a.error.name],
    m.LeaveGroupResponse: lambda a, n: [
        a.error.name,
        *(f"{n.member(member)}/{instance or '-'} {e.name}" for member, instance, e in a.members),
    ],
    m.OffsetCommitResponse: lambda a, n: [f"{_at(tp)} {e.name}" for tp, e in sorted(a.results)],
    m.DescribeGroupsResponse: _groups_described,
    m.ListGroupsResponse: lambda a, n: [
        a.error.name,
        *sorted(
            f"{g.group_id} type={g.group_type} protocol={g.protocol_type or '-'} {g.state}"
            for g in a.groups
        ),
    ],
    m.DeleteGroupsResponse: lambda a, n: [f"{g or '-'} {e.name}" for g, e in sorted(a.results)],
    m.OffsetDeleteResponse: lambda a, n: [
        a.error.name,
        *(f"{_at(tp)} {e.name}" for tp, e in sorted(a.results)),
    ],
    m.OffsetFetchResponse: lambda a, n: [
        a.error.name,
        *(
            f"{_at(p.tp)} {p.error.name} offset={p.offset} epoch={p.leader_epoch}"
            f" metadata={p.metadata!r}"
            for p in sorted(a.partitions, key=lambda p: p.tp)
        ),
    ],
    m.InitProducerIdResponse: lambda a, n: [
        f"{a.error.name} {n.producer(a.producer_id)} epoch={a.producer_epoch}"
    ],
    m.CreateTopicsResponse: lambda a, n: sorted(f"{topic} {e.name}" for topic, e, _ in a.results),
    m.DeleteTopicsResponse: lambda a, n: [
        f"{topic or n.topics.get(given, 'unknown id')} {e.name}"
        for topic, given, e, _ in sorted(a.results)
    ],
    m.CreatePartitionsResponse: lambda a, n: sorted(
        f"{topic} {e.name}" for topic, e, _ in a.results
    ),
    m.IncrementalAlterConfigsResponse: lambda a, n: sorted(
        f"{kind} {name!r} {e.name}" for kind, name, e, _ in a.results
    ),
    m.AlterPartitionReassignmentsResponse: lambda a, n: [
        a.error.name,
        *(f"{_at(tp)} {e.name}" for tp, e, _ in a.results),
    ],
    m.ElectLeadersResponse: lambda a, n: [
        a.error.name,
        *(f"{_at(tp)} {e.name}" for tp, e in sorted(a.results)),
    ],
    m.DeleteRecordsResponse: lambda a, n: [
        f"{_at(p.tp)} {p.error.name} low={p.low_watermark}"
        for p in sorted(a.partitions, key=lambda p: p.tp)
    ],
    m.UnregisterBrokerResponse: lambda a, n: [a.error.name],
    m.UpdateFeaturesResponse: lambda a, n: [
        a.error.name,
        *(f"{feature!r} {e.name}" for feature, e, _ in sorted(a.results) if e),
    ],
    m.ListPartitionReassignmentsResponse: lambda a, n: [
        a.error.name,
        *(
            f"{_at(p.tp)} replicas={list(p.replicas)} adding={list(p.adding_replicas)}"
            f" removing={list(p.removing_replicas)}"
            for p in a.partitions
        ),
    ],
}
