"""The rules of a run: one object for each part of the model that has rules."""

from __future__ import annotations

from dataclasses import dataclass, field

from kafkasim.model.broker.common.connection_quotas import ConnectionRules
from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.connect.rules import MirrorRules
from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.model.controller.common.acls import AuthorizerRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.zookeeper.rules import ZooKeeperRules


@dataclass
class Rules:
    """The rules of each part; a variant replaces the object of a part by a subclass's."""

    storage: StorageRules = field(default_factory=StorageRules)
    raft: RaftRules = field(default_factory=RaftRules)
    controller: ControllerRules = field(default_factory=ControllerRules)
    replication: ReplicationRules = field(default_factory=ReplicationRules)
    group: GroupRules = field(default_factory=GroupRules)
    share: ShareRules = field(default_factory=ShareRules)
    transaction: TransactionRules = field(default_factory=TransactionRules)
    authorizer: AuthorizerRules = field(default_factory=AuthorizerRules)
    connections: ConnectionRules = field(default_factory=ConnectionRules)
    lifecycle: LifecycleRules = field(default_factory=LifecycleRules)
    client: ClientRules = field(default_factory=ClientRules)
    streams: StreamsRules = field(default_factory=StreamsRules)
    zk_controller: ZkControllerRules = field(default_factory=ZkControllerRules)
    zookeeper: ZooKeeperRules = field(default_factory=ZooKeeperRules)
    mirror: MirrorRules = field(default_factory=MirrorRules)
    connect: WorkerRules = field(default_factory=WorkerRules)


PARTS: dict[str, type] = {
    "storage": StorageRules,
    "raft": RaftRules,
    "controller": ControllerRules,
    "replication": ReplicationRules,
    "group": GroupRules,
    "share": ShareRules,
    "transaction": TransactionRules,
    "authorizer": AuthorizerRules,
    "connections": ConnectionRules,
    "lifecycle": LifecycleRules,
    "client": ClientRules,
    "streams": StreamsRules,
    "zk_controller": ZkControllerRules,
    "zookeeper": ZooKeeperRules,
    "mirror": MirrorRules,
    "connect": WorkerRules,
}
