"""The rules a broker is built with, one object per part. Variants replace parts by subclasses."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from kafkasim.model.broker.common.connection_quotas import ConnectionRules
from kafkasim.model.broker.kraft.rules import LifecycleRules
from kafkasim.model.controller.common.acls import AuthorizerRules
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.replication.rules import ReplicationRules
from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.model.storage.rules import StorageRules
from kafkasim.model.transaction.rules import TransactionRules


@dataclass(frozen=True, slots=True)
class BrokerRules:
    """All decisions of a broker, and what it finds in the world."""

    replication: ReplicationRules = field(default_factory=ReplicationRules)
    storage: StorageRules = field(default_factory=StorageRules)
    raft: RaftRules = field(default_factory=RaftRules)
    group: GroupRules = field(default_factory=GroupRules)
    share: ShareRules = field(default_factory=ShareRules)
    transaction: TransactionRules = field(default_factory=TransactionRules)
    lifecycle: LifecycleRules = field(default_factory=LifecycleRules)  # in KRaft mode
    zk: ZkControllerRules = field(default_factory=ZkControllerRules)  # in ZooKeeper mode
    authorizer: AuthorizerRules = field(default_factory=AuthorizerRules)
    connections: ConnectionRules = field(default_factory=ConnectionRules)
    features: tuple[tuple[str, int, int], ...] = ()  # (name, lowest, highest) that it supports
    epochs_used: Mapping[str, int] = field(default_factory=dict)  # by transactional id
