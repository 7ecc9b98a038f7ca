"""ApiVersions, Metadata, ListOffsets and OffsetsForLeaderEpoch."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL_TIMESTAMP = -4
LATEST_TIERED_TIMESTAMP = -5
CONSUMER_REPLICA_ID = -1
DEBUGGING_REPLICA_ID = -2


@value
class ListOffsetsPartition:
    tp: TopicPartition
    current_leader_epoch: int  # −1: not checked
    timestamp: int  # −1 to −5 as above, else the first offset with a timestamp ≥ it


@value
class ListOffsetsRequest(Message):
    replica_id: int
    isolation_level: int
    partitions: tuple[ListOffsetsPartition, ...]


@value
class ListOffsetsPartitionResponse:
    tp: TopicPartition
    error: Errors
    timestamp: int
    offset: int
    leader_epoch: int


@value
class ListOffsetsResponse(Message):
    partitions: tuple[ListOffsetsPartitionResponse, ...]


@value
class OffsetForLeaderEpochPartition:
    tp: TopicPartition
    current_leader_epoch: int  # −1: not checked
    leader_epoch: int  # whose end offset is asked for


@value
class OffsetsForLeaderEpochRequest(Message):
    replica_id: int
    partitions: tuple[OffsetForLeaderEpochPartition, ...]


@value
class EpochEndOffset:
    """Where the largest epoch up to the requested one ends in the leader's log."""

    tp: TopicPartition
    error: Errors
    leader_epoch: int  # −1: undefined
    end_offset: int  # −1: undefined


@value
class OffsetsForLeaderEpochResponse(Message):
    partitions: tuple[EpochEndOffset, ...]


@value
class ApiVersionsRequest(Message):
    """Asks a broker what it serves. Only the finalized features are modelled (KIP-584)."""


@value
class ApiVersionsResponse(Message):
    error: Errors
    finalized_features: tuple[tuple[str, int], ...]  # (feature, level), e.g. transaction.version
    finalized_features_epoch: int  # the metadata offset that they are of; −1: unknown


@value
class MetadataRequest(Message):
    topics: tuple[str, ...] | None  # None: all topics
    allow_auto_topic_creation: bool = True


@value
class MetadataBroker:
    id: int
    address: str  # the endpoint, e.g. ``broker-1``
    rack: str | None


@value
class MetadataPartition:
    partition: int
    error: Errors
    leader: int  # −1: none
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    offline_replicas: tuple[int, ...]


@value
class MetadataTopic:
    topic: str
    topic_id: str
    error: Errors
    partitions: tuple[MetadataPartition, ...]


@value
class MetadataResponse(Message):
    brokers: tuple[MetadataBroker, ...]
    controller_id: int
    topics: tuple[MetadataTopic, ...]

    def wire_size(self) -> int:
        return HEADER + 30 * len(self.brokers) + 60 * sum([len(t.partitions) for t in self.topics])
