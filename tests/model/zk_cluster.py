"""An ensemble and brokers in a little world, and what tests ask of them."""

from __future__ import annotations

from typing import Any

from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.broker.zk.broker import ZkBroker
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.zk.store.zk_data import CONTROLLER, CONTROLLER_EPOCH
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.partition.partition import Partition
from tests.model.broker_cluster import batch
from tests.model.zookeeper_cluster import Ensemble

SECOND = 1_000_000
TP = TopicPartition("orders", 0)


class ZkCluster(Ensemble):
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

    def broker(self, number: int) -> ZkBroker:
        """A live broker."""
        process = self.processes[f"broker-{number}"]
        assert isinstance(process, ZkBroker)
        return process

    def controller(self) -> Any:
        """The controller with the highest epoch."""
        brokers = [p for p in self.processes.values() if isinstance(p, ZkBroker)]
        active = [b.controller for b in brokers if b.controller.is_active]
        return max(active, key=lambda c: c.context.epoch) if active else brokers[0].controller

    def tree(self, path: str) -> Any:
        """The data of a znode, None if there is none."""
        node = self.processes["zookeeper-1"].database.tree.nodes.get(path)
        return None if node is None else node.data

    def who(self) -> tuple[int, int]:
        """The broker named in /controller, and the controller epoch."""
        return self.tree(CONTROLLER).broker_id, self.tree(CONTROLLER_EPOCH)

    def create(self, topic: str = "orders", assignment: tuple[int, ...] = (1, 2, 3)) -> None:
        """Create a topic of one partition."""
        wanted = CreatableTopic(topic, -1, -1, (assignment,))
        answer = self.ask("broker-1", CreateTopicsRequest((wanted,), 30000), 5 * SECOND)
        assert answer.results[0][1] is Errors.NONE, answer
        self.step(SECOND)

    def partition(self, number: int, tp: TopicPartition = TP) -> Partition:
        """A live replica."""
        return self.broker(number).replicas.partitions[tp]

    def produce(self, number: int, *values: int, acks: int = -1, wait_us: int = SECOND) -> Any:
        """Produce one batch; return (error, base offset), None without an answer."""
        request = ProduceRequest(acks, 30000, (ProducePartition(TP, batch(*values)),))
        answer = self.ask(f"broker-{number}", request, wait_us)
        if answer is None:
            return None
        return answer.partitions[0].error, answer.partitions[0].base_offset

    def values(self, number: int) -> list[int]:
        """All record values in a replica's log."""
        log = self.partition(number).log
        return [r.value for b in log.batches_from(log.log_start_offset) for r in b.records]

    def seen(self, kind: type, since: int = 0) -> list[Any]:
        """The facts of one kind."""
        return [fact for at, _, fact in self.facts if type(fact) is kind and at >= since]
