"""A controller and three brokers in the little world, and what tests ask of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from little_world import World

from kafkasim.model.broker import Broker, BrokerRules
from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    FetchPartition,
    FetchRequest,
    MetadataRequest,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.records import Record, RecordBatch, TopicPartition, batch_of
from kafkasim.model.replication.partition.partition import Partition
from kafkasim.model.storage.rules import StorageRules

SECOND = 1_000_000
TP = TopicPartition("orders", 0)


def batch(*values: int, **fields: Any) -> RecordBatch:
    """A batch of records with these values."""
    return batch_of(tuple([Record("key", value, 80, 0) for value in values]), **fields)


class Cluster(World):
    """Three brokers, one controller, topic ``orders`` with one partition on 1, 2, 3."""

    def __init__(self, rules: BrokerRules | None = None, seed: int = 1, **settings: Any) -> None:
        super().__init__(seed)
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.config = BrokerConfig.from_properties(
            {"default.replication.factor": 3, "min.insync.replicas": 2, **properties}
        )
        voters = {100: "controller-100"}
        controller_rules = SimpleNamespace(
            controller=ControllerRules(), raft=RaftRules(), storage=StorageRules()
        )
        self.add(
            "controller-100",
            lambda files, rng, now: Controller(
                "controller-100", 100, voters, self.config, controller_rules, files, rng, now
            ),
        )
        for number in (1, 2, 3):
            self.add(
                f"broker-{number}",
                lambda files, rng, now, number=number: Broker(
                    f"broker-{number}",
                    number,
                    self.config,
                    None,
                    voters,
                    rules or BrokerRules(),
                    files,
                    rng,
                    now,
                ),
            )
        self.run(3 * SECOND)

    def create(self, topic: str = "orders", assignment: tuple[int, ...] = (1, 2, 3)) -> None:
        """Create a topic of one partition."""
        wanted = CreatableTopic(topic, -1, -1, (assignment,))
        answer = self.ask("broker-1", CreateTopicsRequest((wanted,), 30000), 5 * SECOND)
        assert answer.results[0][1] is Errors.NONE, answer
        self.run(self.now + SECOND)

    def broker(self, number: int) -> Broker:
        """A live broker."""
        process = self.processes[f"broker-{number}"]
        assert isinstance(process, Broker)
        return process

    def partition(self, number: int, tp: TopicPartition = TP) -> Partition:
        """A live replica."""
        return self.broker(number).replicas.partitions[tp]

    def produce(self, number: int, *values: int, acks: int = -1, wait_us: int = SECOND) -> Any:
        """Produce one batch to a broker and return (error, base offset), None without answer."""
        request = ProduceRequest(acks, 30000, (ProducePartition(TP, batch(*values)),))
        answer = self.ask(f"broker-{number}", request, wait_us)
        if answer is None:
            return None
        return answer.partitions[0].error, answer.partitions[0].base_offset

    def consume(self, number: int, offset: int = 0) -> list[Any]:
        """Fetch as a consumer; return the values, or the error."""
        partition = self.partition(number)
        asked = FetchPartition(
            TP, partition.topic_id, offset, -1, partition.leader_epoch, -1, 1 << 20
        )
        request = FetchRequest(-1, -1, 0, 1, 1 << 20, 0, (asked,))
        answer = self.ask(f"broker-{number}", request).partitions[0]
        if answer.error is not Errors.NONE:
            return [answer.error]
        return [record.value for found in answer.batches for record in found.records]

    def leader(self, number: int) -> int:
        """The leader according to a broker's metadata cache."""
        answer = self.ask(f"broker-{number}", MetadataRequest(("orders",)))
        return int(answer.topics[0].partitions[0].leader)

    def values(self, number: int) -> list[int]:
        """All record values in a replica's log."""
        log = self.partition(number).log
        return [r.value for b in log.batches_from(log.log_start_offset) for r in b.records]

    def seen(self, kind: type, since: int = 0) -> list[Any]:
        """The facts of one kind."""
        return [fact for at, _, fact in self.facts if type(fact) is kind and at >= since]
