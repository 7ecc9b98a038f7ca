"""Talk: one conversation with a side, and what its requests are built from."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import Record, RecordBatch, TopicPartition, batch_of
from tests.fidelity.sides import Names, Side, shown

NOBODY = "AAAAAAAAAAAAAAAAAAAAAQ"
"""A topic id that no topic has."""


class Talk:
    """One conversation: asks, and writes down the answers."""

    def __init__(self, side: Side, name: str) -> None:
        self.side = side
        self.name = name
        self.names = Names()
        self.lines: list[str] = []
        self.ids: dict[str, str] = {}  # topic -> its id
        self.leaders: dict[TopicPartition, int] = {}

    def ask(self, what: str, message: m.Message, node: int = 1, user: str = "") -> Any:
        """Send a request of a user to a broker and write its answer down under ``what``."""
        answer = self.side.ask(node, message, user)
        self.lines.append(f"{self.name} / {what}: {shown(answer, self.names)}{self._throttled()}")
        return answer

    def _throttled(self) -> str:
        """Return whether the last answer told its client to wait, which is never so exact that
        two sides tell the same time."""
        if not self.side.throttle_ms:
            return ""
        return " (throttled)" if self.side.throttle_ms > 1000 else " (throttled for 1 s or less)"

    def create(self, topic: str, *assignment: tuple[int, ...], **configs: str) -> TopicPartition:
        """Create a topic with these replicas, and wait until its leaders serve; return its
        first partition."""
        settings = tuple((key.replace("_", "."), value) for key, value in configs.items())
        wanted = m.CreatableTopic(topic, -1, -1, assignment or ((1, 2, 3),), settings)
        answer = self.side.ask(1, m.CreateTopicsRequest((wanted,), 10_000))
        assert answer.results[0][1] is Errors.NONE, answer
        for _ in range(40):
            self.side.settle(0.5)
            known = [self.side.ask(node, m.MetadataRequest((topic,), False)) for node in (1, 2, 3)]
            if all(answer.topics[0].error is Errors.NONE for answer in known):
                break
        found = known[0].topics[0]
        self.ids[topic] = found.topic_id
        self.names.topics[found.topic_id] = topic
        for partition in found.partitions:
            self.leaders[TopicPartition(topic, partition.partition)] = partition.leader
        return TopicPartition(topic, 0)

    def coordinator(self, group: str) -> int:
        """Return the group's coordinator, once it serves."""
        for _ in range(60):
            answer = self.side.ask(1, m.FindCoordinatorRequest(group))
            if answer.error is Errors.NONE:
                probe = self.side.ask(answer.node_id, m.OffsetFetchRequest(group, ()))
                if probe.error is Errors.NONE:
                    return int(answer.node_id)
            self.side.settle(0.5)
        raise AssertionError(f"no coordinator for {group}")


def batch(*values: int, **fields: Any) -> RecordBatch:
    """Return a client's batch of records with these values."""
    return batch_of(tuple(Record("key", value, 20, 0) for value in values), **fields)


def produce(tp: TopicPartition, made: RecordBatch, acks: int = -1) -> m.ProduceRequest:
    return m.ProduceRequest(acks, 5000, (m.ProducePartition(tp, made),))
