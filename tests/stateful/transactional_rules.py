"""A producer's settings, what follows from the errors of its requests, and which calls are legal.

Written by hand from the handlers of Kafka's TransactionManager, for an oracle that shares nothing
with the model.
"""

from __future__ import annotations

from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    ProduceRequest,
    TxnOffsetCommitRequest,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

PROPERTIES = {
    "transactional.id": "tx",
    "linger.ms": 1,
    "batch.size": 400,
    "request.timeout.ms": 300,
    "delivery.timeout.ms": 1000,
    "max.block.ms": 1500,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 40,
    "reconnect.backoff.ms": 5,
    "reconnect.backoff.max.ms": 10,
    "metadata.recovery.strategy": "none",
}
REQUEST_TIMEOUT_US = 300_000
PARTITIONS = tuple(TopicPartition("t", number) for number in range(2))
SOURCES = tuple(TopicPartition("in", number) for number in range(2))


@value
class Member:
    """A consumer's place in its group."""

    group_id: str = "g"
    generation_id: int = 3
    member_id: str = "m"
    group_instance_id: str | None = None


OK, LOST = "handled", "handled, but the answer is lost"
TRANSACTIONAL = (
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
)
MOVED = (Errors.NOT_COORDINATOR, Errors.COORDINATOR_NOT_AVAILABLE)
BUSY = (Errors.COORDINATOR_LOAD_IN_PROGRESS, Errors.CONCURRENT_TRANSACTIONS)
RETRIED: dict[type, tuple[Errors, ...]] = {
    **dict.fromkeys(TRANSACTIONAL, (*MOVED, *BUSY)),
    AddPartitionsToTxnRequest: (Errors.UNKNOWN_TOPIC_OR_PARTITION, *MOVED, *BUSY),
    TxnOffsetCommitRequest: (
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
        *MOVED,
        Errors.COORDINATOR_LOAD_IN_PROGRESS,
        Errors.REQUEST_TIMED_OUT,
    ),
    ProduceRequest: (Errors.NOT_ENOUGH_REPLICAS, Errors.KAFKA_STORAGE_ERROR),
}
ABORTABLE: dict[type, tuple[Errors, ...]] = {
    InitProducerIdRequest: (),
    AddPartitionsToTxnRequest: (
        Errors.TRANSACTION_ABORTABLE,
        Errors.UNKNOWN_PRODUCER_ID,
        Errors.OPERATION_NOT_ATTEMPTED,
    ),
    AddOffsetsToTxnRequest: (Errors.TRANSACTION_ABORTABLE, Errors.UNKNOWN_PRODUCER_ID),
    EndTxnRequest: (Errors.TRANSACTION_ABORTABLE, Errors.UNKNOWN_PRODUCER_ID),
    TxnOffsetCommitRequest: (
        Errors.TRANSACTION_ABORTABLE,
        Errors.FENCED_INSTANCE_ID,
        Errors.ILLEGAL_GENERATION,
    ),
    ProduceRequest: (
        Errors.TRANSACTION_ABORTABLE,
        Errors.INVALID_TXN_STATE,
        Errors.INVALID_RECORD,
        Errors.UNKNOWN_PRODUCER_ID,
    ),
}
FATAL: dict[type, tuple[Errors, ...]] = {
    InitProducerIdRequest: (Errors.INVALID_PRODUCER_ID_MAPPING,),
    AddPartitionsToTxnRequest: (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING),
    AddOffsetsToTxnRequest: (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING),
    EndTxnRequest: (Errors.INVALID_TXN_STATE, Errors.INVALID_PRODUCER_ID_MAPPING),
    TxnOffsetCommitRequest: (
        Errors.INVALID_PRODUCER_ID_MAPPING,
        Errors.OFFSET_METADATA_TOO_LARGE,
    ),
    ProduceRequest: (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_ID_MAPPING),
}
"""What follows from an error of each request, by its handler in TransactionManager."""

FENCING = (Errors.PRODUCER_FENCED, Errors.INVALID_PRODUCER_EPOCH)
LEGAL: dict[str, tuple[State, ...]] = {
    "init_transactions": (State.UNINITIALIZED,),
    "begin_transaction": (State.READY,),
    "send": (State.IN_TRANSACTION,),
    "send_offsets_to_transaction": (State.IN_TRANSACTION,),
    "commit_transaction": (State.IN_TRANSACTION,),
    "abort_transaction": (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
}
IN_ERROR = (State.ABORTABLE_ERROR, State.FATAL_ERROR)
TAKES_RECORDS = (
    State.IN_TRANSACTION,
    State.ABORTABLE_ERROR,
    State.FATAL_ERROR,
)
GIVES_UP = (State.ABORTABLE_ERROR, State.ABORTING_TRANSACTION)
TARGET = {
    "init_transactions": State.INITIALIZING,
    "begin_transaction": State.IN_TRANSACTION,
    "commit_transaction": State.COMMITTING_TRANSACTION,
    "abort_transaction": State.ABORTING_TRANSACTION,
}
