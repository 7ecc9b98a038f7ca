"""What tests ask of brokers in the little world, in KRaft and in ZooKeeper mode alike."""

from __future__ import annotations

from typing import Any

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
from kafkasim.model.records import Record, RecordBatch, TopicPartition, batch_of
from kafkasim.model.replication.partitions.partition import Partition
from tests.model.little_world import World

SECOND = 1_000_000
TP = TopicPartition("orders", 0)


def batch(*values: int, **fields: Any) -> RecordBatch:
    """Return a batch of records with these values."""
    return batch_of(tuple([Record("key", value, 80, 0) for value in values]), **fields)


class ClusterVerbs(World):
    """A world with brokers ``broker-N``; a mode's cluster adds them and their controllers."""

    def broker(self, number: int) -> Any:
        """Return a live broker."""
        return self.processes[f"broker-{number}"]

    def partition(self, number: int, tp: TopicPartition = TP) -> Partition:
        """Return a live broker's replica."""
        found: Partition = self.broker(number).replicas.partitions[tp]
        return found

    def operate(self, request: Any) -> Any:
        """Send what an operator asks to a broker that has it served; return the answer."""
        name = next(name for name in self.processes if name.startswith("broker-"))
        return self.ask(name, request, 5 * SECOND)

    def create(self, topic: str = "orders", assignment: tuple[int, ...] = (1, 2, 3)) -> None:
        """Create a topic of one partition, and wait a second until the brokers know it."""
        wanted = CreatableTopic(topic, -1, -1, (assignment,))
        answer = self.operate(CreateTopicsRequest((wanted,), 30000))
        assert answer.results[0][1] is Errors.NONE, answer
        self.step(SECOND)

    def produce(self, number: int, *values: int, acks: int = -1, wait_us: int = SECOND) -> Any:
        """Produce one batch to a broker; return (error, base offset), None without an answer."""
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

    def leader_known_to(self, number: int) -> int:
        """Return the leader of ``orders-0`` in a broker's metadata cache, −1 if there is none."""
        answer = self.ask(f"broker-{number}", MetadataRequest(("orders",)))
        return int(answer.topics[0].partitions[0].leader)

    def values(self, number: int) -> list[int]:
        """Return all record values in a replica's log."""
        log = self.partition(number).log
        return [r.value for b in log.batches_from(log.log_start_offset) for r in b.records]
