"""A ZooKeeper ensemble and brokers in the little world (ZooKeeper mode)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.broker.zk.broker import ZkBroker
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER, CONTROLLER_EPOCH
from tests.model.cluster_verbs import SECOND, TP, ClusterVerbs
from tests.model.zookeeper_cluster import Ensemble

__all__ = ["SECOND", "TP", "ZkCluster"]


class ZkCluster(Ensemble, ClusterVerbs):
    """One ZooKeeper server, three brokers, a topic ``orders`` when asked for."""

    def __init__(
        self, brokers: int = 3, rules: BrokerRules | None = None, seed: int = 1, **settings: Any
    ) -> None:
        super().__init__(servers=1, seed=seed)
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.broker_config = BrokerConfig.from_properties(
            {
                "default.replication.factor": 3,
                "min.insync.replicas": 2,
                "zookeeper.session.timeout.ms": 6000,
                **properties,
            }
        )
        self.broker_rules = rules or BrokerRules()
        for number in range(1, brokers + 1):
            self.add_broker(number)
            self.step(SECOND)
        self.until(lambda: len(self.controller().context.brokers) == brokers)

    def add_broker(self, number: int) -> None:
        """Start a broker."""
        name = f"broker-{number}"
        self.add(
            name,
            lambda files, rng, now: ZkBroker(
                name,
                number,
                self.broker_config,
                None,
                tuple(self.addresses.values()),
                self.broker_rules,
                files,
                rng,
                now,
            ),
        )

    def controller(self) -> Any:
        """The controller with the highest epoch."""
        brokers = [p for p in self.processes.values() if isinstance(p, ZkBroker)]
        active = [b.controller for b in brokers if b.controller.is_active]
        return max(active, key=lambda c: c.context.epoch) if active else brokers[0].controller

    def operate(self, request: Any) -> Any:
        """Send what an operator asks to the controller; return the answer."""
        return self.ask(f"broker-{self.controller().info.id}", request, 5 * SECOND)

    def tree(self, path: str) -> Any:
        """The data of a znode, None if there is none."""
        node = self.processes["zookeeper-1"].database.tree.nodes.get(path)
        return None if node is None else node.data

    def who(self) -> tuple[int, int]:
        """The broker named in /controller, and the controller epoch."""
        return self.tree(CONTROLLER).broker_id, self.tree(CONTROLLER_EPOCH)
