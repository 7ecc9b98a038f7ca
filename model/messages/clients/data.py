"""Produce and Fetch."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.values import value


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
class DeleteRecordsRequest(Message):
    partitions: tuple[tuple[TopicPartition, int], ...]  # offset −1: the high watermark
    timeout_ms: int


@value
class DeleteRecordsPartitionResult:
    tp: TopicPartition
    error: Errors
    low_watermark: int


@value
class DeleteRecordsResponse(Message):
    partitions: tuple[DeleteRecordsPartitionResult, ...]


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
