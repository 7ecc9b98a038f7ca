"""What an operator asks of the controller: topics, reassignments, settings, brokers, features.

In KRaft mode a broker of Kafka forwards such a request inside an Envelope, whose response has an
error of its own (NOT_CONTROLLER, REQUEST_TIMED_OUT). Here that error is the ``error`` of each
response.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

TOPIC = "topic"
BROKER = "broker"
GROUP = "group"
"""The types of a config resource; a broker's name is its id, "" is the default of all brokers."""


@value
class DeleteTopicsRequest(Message):
    """Delete topics by name, or by id where the name is ""."""

    topics: tuple[tuple[str, str], ...]  # (name, topic id or "")
    timeout_ms: int = 60000
    knows_quota: bool = True  # version 5: above its quota it is refused, not delayed (KIP-599)


@value
class DeleteTopicsResponse(Message):
    error: Errors
    results: tuple[tuple[str, str, Errors, str], ...]  # (name, topic id, error, message)
    throttle_time_ms: int = 0


@value
class CreatePartitionsTopic:
    """A topic that is to have more partitions."""

    topic: str
    count: int  # of all partitions afterwards
    assignments: tuple[tuple[int, ...], ...] = ()  # replicas of the new ones; (): chosen for them


@value
class CreatePartitionsRequest(Message):
    topics: tuple[CreatePartitionsTopic, ...]
    timeout_ms: int = 60000
    validate_only: bool = False  # a KRaft controller answers alike, and changes nothing
    knows_quota: bool = True  # version 3: above its quota it is refused, not delayed (KIP-599)


@value
class CreatePartitionsResponse(Message):
    error: Errors
    results: tuple[tuple[str, Errors, str], ...]  # (topic, error, message)
    throttle_time_ms: int = 0


@value
class ReassignablePartition:
    tp: TopicPartition
    replicas: tuple[int, ...] | None  # None: cancel the reassignment


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
    """Changes of one resource's dynamic settings."""

    resource_type: str  # TOPIC, BROKER or GROUP
    resource_name: str
    configs: tuple[tuple[str, str | None], ...]  # (setting, value; None removes the setting)


@value
class IncrementalAlterConfigsRequest(Message):
    resources: tuple[AlterableConfig, ...]
    validate_only: bool = False  # a KRaft controller answers alike, and changes nothing


@value
class IncrementalAlterConfigsResponse(Message):
    error: Errors
    results: tuple[tuple[str, str, Errors, str], ...]  # (type, name, error, message)


USER, CLIENT_ID, IP = "user", "client-id", "ip"
"""The types of quota entities."""

DEFAULT_NAME = "<default>"
"""The default entity, as znodes and texts name it (ZooKeeperInternals.DEFAULT_STRING)"""

QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]
"""What a quota is of: a user, a client id or both, each (type, name); name None is the default.

It is sorted by type: :func:`quota_entity`.
"""

MATCH_EXACT, MATCH_DEFAULT, MATCH_SPECIFIED = 0, 1, 2
"""How a component of a filter matches: this name, the default, any entity of the type."""


def quota_entity(parts: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """Return the entity of these parts; of two parts of one type the last one counts."""
    return tuple(sorted(dict(parts).items()))


@value
class ClientQuotaAlteration:
    """Changes of one entity's quotas."""

    entity: QuotaEntity
    changes: tuple[tuple[str, float | None], ...]  # (key, bytes a second; None removes it)


@value
class AlterClientQuotasRequest(Message):
    """Set quotas of clients (KIP-546)."""

    entries: tuple[ClientQuotaAlteration, ...]


@value
class AlterClientQuotasResponse(Message):
    error: Errors
    results: tuple[tuple[QuotaEntity, Errors, str], ...]  # (entity, error, message)


@value
class DescribeClientQuotasRequest(Message):
    """Ask for the quotas of the entities that match all components (KIP-546)."""

    # (entity type; MATCH_EXACT, MATCH_DEFAULT or MATCH_SPECIFIED; the name of an exact match)
    components: tuple[tuple[str, int, str | None], ...]
    strict: bool = False  # an entity must have no type besides


@value
class DescribeClientQuotasResponse(Message):
    error: Errors
    entries: tuple[tuple[QuotaEntity, tuple[tuple[str, float], ...]], ...]


@value
class UnregisterBrokerRequest(Message):
    broker_id: int


@value
class UnregisterBrokerResponse(Message):
    error: Errors
    message: str = ""


UPGRADE, SAFE_DOWNGRADE, UNSAFE_DOWNGRADE = 1, 2, 3
"""What UpdateFeatures is to do (FeatureUpdate.UpgradeType)."""


@value
class UpdateFeaturesRequest(Message):
    """Set the levels of features, all of them or none (KIP-584).

    Kafka has an upgrade type for each feature; kafka-features gives all that it names the same one.
    """

    updates: tuple[tuple[str, int], ...]  # (feature, level)
    upgrade_type: int = UPGRADE
    validate_only: bool = False  # a KRaft controller answers alike, and changes nothing


@value
class UpdateFeaturesResponse(Message):
    """A KRaft controller updates all features or none; ``results`` are a ZooKeeper controller's."""

    error: Errors
    message: str = ""
    results: tuple[tuple[str, Errors, str], ...] = ()  # (feature, error, message)
