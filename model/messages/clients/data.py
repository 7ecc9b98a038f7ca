"""Produce, Fetch and DeleteRecords."""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.values import value


@value
class ProducePartition:
    """One partition of a Produce request (PartitionProduceData)."""

    tp: TopicPartition
    batch: RecordBatch


@value
class ProduceRequest(Message):
    acks: int  # 0, 1 or −1 (all)
    timeout_ms: int
    partitions: tuple[ProducePartition, ...]
    transactional_id: str | None = None
    transaction_version: int = 0  # 2: partitions join the transaction implicitly (version 12)
    knows_abortable: bool = True  # the client knows TRANSACTION_ABORTABLE (version 11)
    client_id: str = ""  # of the request's header

    def wire_size(self) -> int:
        return HEADER + sum([PER_PARTITION + p.batch.size for p in self.partitions])


@value
class ProducePartitionResponse:
    tp: TopicPartition
    error: Errors
    base_offset: int  # −1 after an error
    log_append_time_ms: int  # −1: the records keep their CreateTime
    log_start_offset: int
    current_leader: tuple[int, int] | None = None  # KIP-951: (leader id, leader epoch)
    topic_id: str = ""  # of the log that took the batch; for facts: on the wire since 13 (KIP-516)


@value
class ProduceResponse(Message):
    partitions: tuple[ProducePartitionResponse, ...]
    throttle_time_ms: int = 0  # how long the client must not send to this broker (KIP-219)


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
    """One partition of a Fetch request."""

    tp: TopicPartition
    topic_id: str
    fetch_offset: int
    log_start_offset: int  # the follower's; −1 from a consumer
    current_leader_epoch: int  # −1: not checked
    last_fetched_epoch: int  # −1: no divergence check (consumers, followers before IBP 2.7)
    partition_max_bytes: int


@value
class FetchRequest(Message):
    """A fetch of a follower or a consumer; sessions are KIP-227."""

    replica_id: int  # −1: a consumer
    replica_epoch: int  # the follower's broker epoch (KIP-903)
    max_wait_ms: int  # how long the broker may park it for ``min_bytes``
    min_bytes: int
    max_bytes: int
    isolation_level: int  # 0 read_uncommitted, 1 read_committed
    partitions: tuple[FetchPartition, ...]  # in an incremental fetch those that changed
    session_id: int = 0  # 0: no session
    session_epoch: int = -1  # −1: a full fetch without session, 0: a full fetch that opens one
    rack_id: str | None = ""  # of a consumer (KIP-392); None: before version 11, for leaders only
    # (topic id, partition) of what leaves the session
    forgotten: tuple[tuple[str, TopicPartition], ...] = ()
    client_id: str = ""  # of the request's header

    def wire_size(self) -> int:
        return HEADER + 60 * len(self.partitions) + 24 * len(self.forgotten)


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
    preferred_read_replica: int = -1  # from which a consumer should fetch (KIP-392)


@value
class FetchResponse(Message):
    error: Errors
    partitions: tuple[FetchPartitionResponse, ...]  # in a session those with news
    session_id: int = 0  # 0: no session
    throttle_time_ms: int = 0  # how long the client must not send to this broker (KIP-219)

    def wire_size(self) -> int:
        total = HEADER
        for partition in self.partitions:
            total += PER_PARTITION
            for batch in partition.batches:
                total += batch.size
        return total
