"""Reassignments, deletion, dynamic settings: what an operator asks the controller for.

Kafka forwards such a request inside an Envelope, whose own error says NOT_CONTROLLER or that it
timed out; here that error is the ``error`` of each response.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

TOPIC = "topic"
BROKER = "broker"
"""The types of a config resource; a broker's name is its id, "" is the default of all brokers."""


@value
class DeleteTopicsRequest(Message):
    """Topics by name, or by id where the name is empty."""

    topics: tuple[tuple[str, str], ...]  # (name, topic id or "")
    timeout_ms: int = 60000


@value
class DeleteTopicsResponse(Message):
    error: Errors
    results: tuple[tuple[str, str, Errors, str], ...]  # (name, topic id, error, message)


@value
class CreatePartitionsTopic:
    """A topic that shall have ``count`` partitions in all; no assignments: place the new ones."""

    topic: str
    count: int
    assignments: tuple[tuple[int, ...], ...] = ()


@value
class CreatePartitionsRequest(Message):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 60000


@value
class CreatePartitionsResponse(Message):
    error: Errors
    results: tuple[tuple[str, Errors, str], ...]  # (topic, error, message)


@value
class ReassignablePartition:
    tp: TopicPartition
    replicas: tuple[int, ...] | None  # None: cancel


@value
class AlterPartitionReassignmentsRequest(Message):
    partitions: tuple[ReassignablePartition, ...]
    timeout_ms: int = 60000

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION * len(self.partitions)


@value
class AlterPartitionReassignmentsResponse(Message):
    error: Errors
    results: tuple[tuple[TopicPartition, Errors, str], ...]


@value
class ListPartitionReassignmentsRequest(Message):
    partitions: tuple[TopicPartition, ...] | None  # None: all
    timeout_ms: int = 60000


@value
class OngoingPartitionReassignment:
    tp: TopicPartition
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


@value
class ListPartitionReassignmentsResponse(Message):
    error: Errors
    partitions: tuple[OngoingPartitionReassignment, ...]


@value
class AlterableConfig:
    """Settings of one resource; a ``None`` value takes the setting away."""

    resource_type: str
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]


@value
class IncrementalAlterConfigsRequest(Message):
    resources: tuple[AlterableConfig, ...]


@value
class IncrementalAlterConfigsResponse(Message):
    error: Errors
    results: tuple[tuple[str, str, Errors, str], ...]  # (type, name, error, message)


@value
class UnregisterBrokerRequest(Message):
    broker_id: int


@value
class UnregisterBrokerResponse(Message):
    error: Errors
    message: str = ""


@value
class UpdateFeaturesRequest(Message):
    """Finalize levels of features, all or none (KIP-584)."""

    updates: tuple[tuple[str, int], ...]  # (feature, level)


@value
class UpdateFeaturesResponse(Message):
    error: Errors
    message: str = ""
