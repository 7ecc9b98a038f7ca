"""What the adapters share: the call of one request, and what a broker's image tells them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

from kafkasim.model.broker.common.kafka_broker import KafkaBroker
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import METADATA_VERSION
from kafkasim.model.messages import MetadataRequest
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.wire.compiling import NULL_UUID

NOT_VALIDATED = "kafkasim does not serve validate_only in ZooKeeper mode"
"""What a request that only asks for a validation is answered there, with INVALID_REQUEST."""

Body = dict[str, Any]
Row = tuple[TopicPartition, Body]


class Served(Protocol):
    """The broker that a connection goes to, and where the other brokers listen."""

    @property
    def kafka(self) -> KafkaBroker | None:
        """The parts of its process, None while it is down."""

    def listener(self, node: str) -> tuple[str, int]:
        """Return host and port at which the broker of a node is reached from outside."""


@dataclass(slots=True)
class Call:
    """One request of a client on its way through the model.

    ``messages`` are the model's requests that it has become; their responses are joined.
    """

    version: int
    body: Body
    client_id: str
    broker: Served
    messages: list[Any] = field(default_factory=list)

    @property
    def image(self) -> MetadataImage | None:
        """The metadata cache of the broker, None while its process is down."""
        return None if self.broker.kafka is None else self.broker.kafka.image

    @property
    def validates(self) -> bool:
        """Whether the request only asks for a validation."""
        return bool(self.body.get("ValidateOnly", False))

    @property
    def refused(self) -> bool:
        """Whether it does so in ZooKeeper mode, where nobody validates."""
        return self.validates and (
            self.image is None or METADATA_VERSION not in self.image.features
        )

    def topic_name(self, topic_id: str) -> str:
        """Return the name of a topic, "" if the broker does not know the id."""
        image = self.image
        topic = None if image is None else image.topics.get(topic_id)
        return "" if topic is None else topic.name

    def topic_id(self, name: str) -> str:
        """Return the id of a topic, the null id if the broker does not know the name."""
        image = self.image
        return NULL_UUID if image is None else image.topic_names.get(name, NULL_UUID)


class Adapter(NamedTuple):
    """One API: the versions that are served, and its two directions."""

    low: int
    high: int
    request: Callable[[Call], list[Any]]
    response: Callable[[Call, list[Any]], Body]


def asked(call: Call) -> list[Any]:
    """Return a request without effect: the broker answers it, and then its image is read."""
    return [MetadataRequest((), False)]


def by_topic(rows: Iterable[Row], name: str = "Name", key: str = "Partitions") -> list[Body]:
    """Return partitions' bodies grouped by topic, in the order of the topics."""
    topics: dict[str, list[Body]] = {}
    for tp, body in rows:
        topics.setdefault(tp.topic, []).append(body)
    return [{name: topic, key: bodies} for topic, bodies in topics.items()]


def partitions(
    topics: Sequence[Body] | None, key: str, name: str = "Name"
) -> tuple[TopicPartition, ...] | None:
    """Return the partitions whose numbers are lists by topic; None means all."""
    if topics is None:
        return None
    return tuple([TopicPartition(topic[name], number) for topic in topics for number in topic[key]])


def each_partition(
    topics: Sequence[Body], number: str = "PartitionIndex", key: str = "Partitions"
) -> list[Row]:
    """Return the bodies of partitions with their names."""
    return [
        (TopicPartition(topic["Name"], partition[number]), partition)
        for topic in topics
        for partition in topic[key]
    ]


def leader_body(leader: tuple[int, int] | None) -> Body:
    """Return CurrentLeader (KIP-951) of a response; {} leaves it out."""
    return {} if leader is None else {"LeaderId": leader[0], "LeaderEpoch": leader[1]}
