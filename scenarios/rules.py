"""The rules of a run: one object per part of the model, each replaceable by a variant's subclass."""

from __future__ import annotations

from dataclasses import dataclass, field

from model.client.rules import ClientRules
from model.controller.rules import ControllerRules
from model.controller.zk.rules import ZkControllerRules
from model.group.rules import GroupRules
from model.raft.rules import RaftRules
from model.replication.rules import ReplicationRules
from model.storage.rules import StorageRules
from model.zookeeper.rules import ZooKeeperRules


@dataclass
class Rules:
    """What Kafka decides, part by part."""

    storage: StorageRules = field(default_factory=StorageRules)
    raft: RaftRules = field(default_factory=RaftRules)
    controller: ControllerRules = field(default_factory=ControllerRules)
    replication: ReplicationRules = field(default_factory=ReplicationRules)
    group: GroupRules = field(default_factory=GroupRules)
    client: ClientRules = field(default_factory=ClientRules)
    zk_controller: ZkControllerRules = field(default_factory=ZkControllerRules)
    zookeeper: ZooKeeperRules = field(default_factory=ZooKeeperRules)


PARTS: dict[str, type] = {
    "storage": StorageRules,
    "raft": RaftRules,
    "controller": ControllerRules,
    "replication": ReplicationRules,
    "group": GroupRules,
    "client": ClientRules,
    "zk_controller": ZkControllerRules,
    "zookeeper": ZooKeeperRules,
}
