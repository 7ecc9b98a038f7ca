"""What brokers ask of the controller: topics, partitions, registrations, heartbeats."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import CLUSTER_ID, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value


@value
class EnvelopeRequest(Message):
    """A client's request that a broker forwards, and who sent it (KIP-590).

    Its answer is that of the request in it; Kafka wraps the answer as well.
    """

    request: Any
    principal: str  # User:alice
    client_id: str
    client_host: str

    def wire_size(self) -> int:
        size: int = self.request.wire_size()
        return size


@value
class CreatableTopic:
    """A topic to create."""

    topic: str
    num_partitions: int  # −1: the default
    replication_factor: int  # −1: the default
    assignments: tuple[tuple[int, ...], ...] = ()  # the replicas of each partition, if chosen
    configs: tuple[tuple[str, str], ...] = ()


@value
class CreateTopicsRequest(Message):
    topics: tuple[CreatableTopic, ...]
    timeout_ms: int
    validate_only: bool = False  # a KRaft controller answers alike, and changes nothing
    knows_quota: bool = True  # version 6: above its quota it is refused, not delayed (KIP-599)


@value
class CreateTopicsResponse(Message):
    results: tuple[tuple[str, Errors, str], ...]  # (topic, error, message)
    throttle_time_ms: int = 0


@value
class AlterPartitionData:
    """A change of one partition's ISR that its leader asks for (KIP-497)."""

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
    features: tuple[tuple[str, int, int], ...] = ()  # (name, lowest, highest) that it supports
    log_dirs: tuple[str, ...] = ()  # directory ids
    cluster_id: str = CLUSTER_ID


@value
class BrokerRegistrationResponse(Message):
    error: Errors
    broker_epoch: int


@value
class AssignReplicasToDirsRequest(Message):
    """A broker reports where it has put replicas (KIP-858); Kafka groups them by directory."""

    broker_id: int
    broker_epoch: int
    directories: tuple[tuple[str, str, int], ...]  # (directory id, topic id, partition)


@value
class AssignReplicasToDirsResponse(Message):
    error: Errors
    directories: tuple[tuple[str, str, int, Errors], ...] = ()


@value
class BrokerHeartbeatRequest(Message):
    broker_id: int
    broker_epoch: int
    current_metadata_offset: int  # the last record that it has published
    want_fence: bool
    want_shut_down: bool
    offline_log_dirs: tuple[str, ...] = ()  # directory ids


@value
class BrokerHeartbeatResponse(Message):
    error: Errors
    is_caught_up: bool
    is_fenced: bool
    should_shut_down: bool
