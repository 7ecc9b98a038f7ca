"""Producer ids, transactions, their markers, and what an operator may ask about them.

``transaction_version`` stands for the version of the request: 0 is KIP-98's protocol, 1 the same
with flexible records, 2 KIP-890's second part (Produce 12, EndTxn 5, TxnOffsetCommit 5), which adds
partitions implicitly and raises the epoch with each transaction.
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value


@value
class InitProducerIdRequest(Message):
    """Asks for a producer id; with a transactional id it also ends what that id had begun."""

    transactional_id: str | None
    transaction_timeout_ms: int
    producer_id: int = -1  # with the epoch: the producer's own, whose epoch it wants raised
    producer_epoch: int = -1


@value
class InitProducerIdResponse(Message):
    error: Errors
    producer_id: int
    producer_epoch: int


@value
class AddPartitionsToTxnTransaction:
    """One transaction of an AddPartitionsToTxn request."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    verify_only: bool  # a broker asks whether the partitions are in the transaction (KIP-890)
    partitions: tuple[TopicPartition, ...]


@value
class AddPartitionsToTxnRequest(Message):
    """A client sends one transaction (versions 0 to 3), a broker a batch of them (4, 5)."""

    transactions: tuple[AddPartitionsToTxnTransaction, ...]
    transaction_version: int = 0

    def wire_size(self) -> int:
        return HEADER + sum([PER_PARTITION * len(each.partitions) for each in self.transactions])


@value
class AddPartitionsToTxnResponse(Message):
    error: Errors  # of the whole request (version 4); NONE if the partitions have their own
    # (transactional id, the error of each of its partitions)
    results: tuple[tuple[str, tuple[tuple[TopicPartition, Errors], ...]], ...]


@value
class AddOffsetsToTxnRequest(Message):
    """Adds the group's partition of ``__consumer_offsets`` to a transaction."""

    transactional_id: str
    producer_id: int
    producer_epoch: int
    group_id: str


@value
class AddOffsetsToTxnResponse(Message):
    error: Errors


@value
class EndTxnRequest(Message):
    transactional_id: str
    producer_id: int
    producer_epoch: int
    committed: bool  # False: abort
    transaction_version: int = 0


@value
class EndTxnResponse(Message):
    error: Errors
    producer_id: int = -1  # for the next transaction (version 5); −1 before
    producer_epoch: int = -1


@value
class TxnOffsetCommitRequest(Message):
    """Commits a group's offsets when the transaction commits; generation −1: not checked."""

    transactional_id: str
    group_id: str
    producer_id: int
    producer_epoch: int
    generation_id: int
    member_id: str
    group_instance_id: str | None
    # (partition, offset, leader epoch of the last record read or −1, metadata)
    offsets: tuple[tuple[TopicPartition, int, int, str], ...]
    transaction_version: int = 0
    knows_abortable: bool = True  # the client knows TRANSACTION_ABORTABLE (version 4)


@value
class TxnOffsetCommitResponse(Message):
    results: tuple[tuple[TopicPartition, Errors], ...]


@value
class WritableTxnMarker:
    """The end of one producer's transaction, for partitions that a broker leads."""

    producer_id: int
    producer_epoch: int
    committed: bool
    partitions: tuple[TopicPartition, ...]
    coordinator_epoch: int
    transaction_version: int = 0


@value
class WriteTxnMarkersRequest(Message):
    """A coordinator (or an operator's abort) has control batches written by leaders."""

    markers: tuple[WritableTxnMarker, ...]

    def wire_size(self) -> int:
        return HEADER + sum([PER_PARTITION * len(marker.partitions) for marker in self.markers])


@value
class WriteTxnMarkersResponse(Message):
    # (producer id, the error of each of its partitions)
    results: tuple[tuple[int, tuple[tuple[TopicPartition, Errors], ...]], ...]


@value
class ProducerState:
    """An active producer of a partition (DescribeProducers)."""

    producer_id: int
    producer_epoch: int
    last_sequence: int
    last_timestamp_ms: int
    coordinator_epoch: int  # −1: no marker was written yet
    current_txn_start_offset: int  # −1: no open transaction


@value
class DescribeProducersRequest(Message):
    partitions: tuple[TopicPartition, ...]


@value
class DescribeProducersPartition:
    tp: TopicPartition
    error: Errors
    producers: tuple[ProducerState, ...]


@value
class DescribeProducersResponse(Message):
    partitions: tuple[DescribeProducersPartition, ...]


@value
class DescribeTransactionsRequest(Message):
    transactional_ids: tuple[str, ...]


@value
class DescribedTransaction:
    """What the coordinator knows of a transactional id."""

    error: Errors
    transactional_id: str
    state: str  # Kafka's name, e.g. ``Ongoing``
    transaction_timeout_ms: int
    start_time_ms: int  # −1: no transaction is open
    producer_id: int
    producer_epoch: int
    partitions: tuple[TopicPartition, ...]


@value
class DescribeTransactionsResponse(Message):
    transactions: tuple[DescribedTransaction, ...]


@value
class ListTransactionsRequest(Message):
    """Filters are empty, or −1, where nothing is filtered."""

    state_filters: tuple[str, ...] = ()
    producer_id_filters: tuple[int, ...] = ()
    duration_filter_ms: int = -1  # transactions that have been open for longer (KIP-994)


@value
class ListTransactionsResponse(Message):
    error: Errors
    unknown_state_filters: tuple[str, ...]
    transactions: tuple[tuple[str, int, str], ...]  # (transactional id, producer id, state)
