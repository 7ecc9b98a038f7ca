"""A request and response pair per API key, with Kafka's message and field names.

Sizes: ``wire_size()`` is what the message weighs on the network, to about 10 %; only messages that
carry records differ much from a constant. ``REQUEST_NAMES`` gives Kafka's API name of a request
type, which faults (hold, release, cut by API) and request metrics use.

Not modelled: versions of a message side by side, throttle_time_ms, authorized operations, tagged
fields that nothing here reads.
"""

from __future__ import annotations

from typing import Any

from model.errors import Errors
from model.records import RecordBatch, TopicPartition
from model.values import value

HEADER = 40
PER_PARTITION = 40


class Message:
    """Base of all requests and responses."""

    __slots__ = ()

    def wire_size(self) -> int:
        """Return the size in bytes on the network."""
        return 120


# ------------------------------------------------------------------------------- Produce, Fetch


@value
class ProducePartition:
    tp: TopicPartition
    batch: RecordBatch


@value
class ProduceRequest(Message):
    acks: int
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None

    def wire_size(self) -> int:
        return HEADER + sum([PER_PARTITION + p.batch.size for p in self.partitions])


@value
class ProducePartitionResponse:
    tp: TopicPartition
    error: Errors
    base_offset: int
    log_append_time_ms: int
    log_start_offset: int
    current_leader: tuple[int, int] | None = None  # KIP-951: (leader id, leader epoch)


@value
class ProduceResponse(Message):
    partitions: tuple[ProducePartitionResponse, ...]


@value
class FetchPartition:
    tp: TopicPartition
    topic_id: str
    fetch_offset: int
    log_start_offset: int  # the follower's; −1 from a consumer
    current_leader_epoch: int
    last_fetched_epoch: int  # −1 when the fetcher has no epoch (consumers, lookup mode)
    partition_max_bytes: int


@value
class FetchRequest(Message):
    """``replica_id`` −1 is a consumer; ``replica_epoch`` is the broker epoch (KIP-903)."""

    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int  # 0 read_uncommitted, 1 read_committed
    partitions: tuple[FetchPartition, ...]
    session_id: int = 0
    session_epoch: int = -1
    rack_id: str = ""
    forgotten: tuple[TopicPartition, ...] = ()

    def wire_size(self) -> int:
        return HEADER + 60 * len(self.partitions)


@value
class FetchPartitionResponse:
    tp: TopicPartition
    error: Errors
    high_watermark: int
    last_stable_offset: int
    log_start_offset: int
    batches: tuple[RecordBatch, ...]
    diverging_epoch: tuple[int, int] | None = None  # (epoch, end offset)
    current_leader: tuple[int, int] | None = None  # (leader id, leader epoch)
    aborted_transactions: tuple[tuple[int, int], ...] = ()  # (producer id, first offset)
    preferred_read_replica: int = -1


@value
class FetchResponse(Message):
    error: Errors
    partitions: tuple[FetchPartitionResponse, ...]
    session_id: int = 0

    def wire_size(self) -> int:
        total = HEADER
        for partition in self.partitions:
            total += PER_PARTITION
            for batch in partition.batches:
                total += batch.size
        return total


# --------------------------------------------------------------- ListOffsets, epochs, metadata

LATEST_TIMESTAMP = -1
EARLIEST_TIMESTAMP = -2


@value
class ListOffsetsPartition:
    tp: TopicPartition
    current_leader_epoch: int
    timestamp: int  # −1 latest, −2 earliest, else the first offset with a timestamp ≥ it


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
    current_leader_epoch: int
    leader_epoch: int


@value
class OffsetsForLeaderEpochRequest(Message):
    replica_id: int
    partitions: tuple[OffsetForLeaderEpochPartition, ...]


@value
class EpochEndOffset:
    tp: TopicPartition
    error: Errors
    leader_epoch: int  # −1 undefined
    end_offset: int  # −1 undefined


@value
class OffsetsForLeaderEpochResponse(Message):
    partitions: tuple[EpochEndOffset, ...]


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
    leader: int  # −1 none
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


# -------------------------------------------------------------------------- topics, partitions


@value
class CreatableTopic:
    """``num_partitions`` and ``replication_factor`` −1 take the broker defaults;
    ``assignments`` (partition to replicas), if given, replaces both."""

    topic: str
    num_partitions: int
    replication_factor: int
    assignments: tuple[tuple[int, ...], ...] = ()
    configs: tuple[tuple[str, str], ...] = ()


@value
class CreateTopicsRequest(Message):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int


@value
class CreateTopicsResponse(Message):
    results: tuple[tuple[str, Errors, str], ...]  # (topic, error, message)


@value
class AlterPartitionData:
    topic_id: str
    partition: int
    leader_epoch: int
    new_isr: tuple[tuple[int, int], ...]  # (broker id, broker epoch; −1 unknown), KIP-903
    partition_epoch: int
    leader_recovery_state: int = 0  # 0 RECOVERED, 1 RECOVERING
    reason: str = ""  # for the trace: ``lag`` or ``caught-up``


@value
class AlterPartitionRequest(Message):
    broker_id: int
    broker_epoch: int
    partitions: tuple[AlterPartitionData, ...]


@value
class AlterPartitionResult:
    topic_id: str
    partition: int
    error: Errors
    leader: int = -1
    leader_epoch: int = -1
    isr: tuple[int, ...] = ()
    partition_epoch: int = -1
    leader_recovery_state: int = 0


@value
class AlterPartitionResponse(Message):
    error: Errors
    partitions: tuple[AlterPartitionResult, ...]


@value
class ElectLeadersRequest(Message):
    election_type: int  # 0 PREFERRED, 1 UNCLEAN
    partitions: tuple[TopicPartition, ...] | None  # None: all
    timeout_ms: int = 60000


@value
class ElectLeadersResponse(Message):
    error: Errors
    results: tuple[tuple[TopicPartition, Errors], ...]


@value
class AllocateProducerIdsRequest(Message):
    broker_id: int
    broker_epoch: int


@value
class AllocateProducerIdsResponse(Message):
    error: Errors
    producer_id_start: int
    producer_id_len: int


@value
class BrokerRegistrationRequest(Message):
    broker_id: int
    incarnation_id: str
    address: str
    rack: str | None
    previous_broker_epoch: int = -1


@value
class BrokerRegistrationResponse(Message):
    error: Errors
    broker_epoch: int


@value
class BrokerHeartbeatRequest(Message):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[str, ...] = ()


@value
class BrokerHeartbeatResponse(Message):
    error: Errors
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool


# ---------------------------------------------------------------------------------------- Raft


@value
class VoteRequest(Message):
    candidate_epoch: int
    candidate_id: int
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool = False
    candidate_directory_id: str = ""


@value
class VoteResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int
    vote_granted: bool


@value
class BeginQuorumEpochRequest(Message):
    leader_id: int
    leader_epoch: int


@value
class BeginQuorumEpochResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int


@value
class EndQuorumEpochRequest(Message):
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...]


@value
class EndQuorumEpochResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int


@value
class RaftFetchRequest(Message):
    """The quorum's Fetch (API key 1 on ``__cluster_metadata-0``)."""

    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int = 8 * 1024 * 1024
    replica_directory_id: str = ""
    high_watermark: int = -1


@value
class RaftFetchResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    batches: tuple[RecordBatch, ...] = ()
    diverging_epoch: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None  # (end offset, epoch)

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION + sum([batch.size for batch in self.batches])


# -------------------------------------------------------------------------------------- groups


@value
class FindCoordinatorRequest(Message):
    key: str
    key_type: int = 0  # 0 group, 1 transaction


@value
class FindCoordinatorResponse(Message):
    error: Errors
    node_id: int
    address: str


@value
class JoinGroupRequest(Message):
    """``protocols``: (assignor name, subscription) in order of preference."""

    group_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str
    protocols: tuple[tuple[str, Subscription], ...]
    client_id: str = ""
    reason: str = ""


@value
class Subscription:
    """ConsumerProtocolSubscription."""

    topics: tuple[str, ...]
    owned_partitions: tuple[TopicPartition, ...] = ()
    generation_id: int = -1
    rack_id: str | None = None
    user_data: Any = None


@value
class JoinGroupMember:
    member_id: str
    group_instance_id: str | None
    subscription: Subscription


@value
class JoinGroupResponse(Message):
    error: Errors
    generation_id: int
    protocol_type: str | None
    protocol_name: str | None
    leader: str
    skip_assignment: bool
    member_id: str
    members: tuple[JoinGroupMember, ...]  # only for the leader


@value
class SyncGroupRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    protocol_type: str | None
    protocol_name: str | None
    assignments: tuple[tuple[str, tuple[TopicPartition, ...]], ...]  # only from the leader


@value
class SyncGroupResponse(Message):
    error: Errors
    protocol_type: str | None
    protocol_name: str | None
    assignment: tuple[TopicPartition, ...]


@value
class HeartbeatRequest(Message):
    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None


@value
class HeartbeatResponse(Message):
    error: Errors


@value
class LeaveGroupRequest(Message):
    group_id: str
    members: tuple[tuple[str, str | None, str], ...]  # (member id, instance id, reason)


@value
class LeaveGroupResponse(Message):
    error: Errors
    members: tuple[tuple[str, str | None, Errors], ...]


@value
class OffsetCommitRequest(Message):
    """``offsets``: (partition, offset, leader epoch or −1, metadata)."""

    group_id: str
    generation_id: int
    member_id: str
    group_instance_id: str | None
    offsets: tuple[tuple[TopicPartition, int, int, str], ...]


@value
class OffsetCommitResponse(Message):
    results: tuple[tuple[TopicPartition, Errors], ...]


@value
class OffsetFetchRequest(Message):
    group_id: str
    partitions: tuple[TopicPartition, ...] | None  # None: all the group has
    require_stable: bool = True


@value
class OffsetFetchPartition:
    tp: TopicPartition
    offset: int  # −1: no committed offset
    leader_epoch: int
    metadata: str
    error: Errors


@value
class OffsetFetchResponse(Message):
    error: Errors
    partitions: tuple[OffsetFetchPartition, ...]


# ---------------------------------------------------------------------------------- idempotence


@value
class InitProducerIdRequest(Message):
    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = -1
    producer_epoch: int = -1


@value
class InitProducerIdResponse(Message):
    error: Errors
    producer_id: int
    producer_epoch: int


def request_name(message: Any) -> str:
    """Return Kafka's API name of a request: ``Produce``, ``FetchFollower``, ``Vote``…"""
    name = type(message).__name__
    if name == "FetchRequest":
        return "FetchFollower" if message.replica_id >= 0 else "FetchConsumer"
    return name.removesuffix("Request")
