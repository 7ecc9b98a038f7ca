"""The records of ``__transaction_state``: key, value, and their sizes on disk.

Kafka: TransactionLogKey v0; TransactionLogValue v0, or v1 from transaction.version 1 on. A record
whose value is None is a tombstone. What the value leaves out is lost in a failover: the last epoch,
and, as 4.0 and 4.1 do not write them, the previous and the next producer id. Sizes in bytes assume
ASCII names.
"""

from __future__ import annotations

from kafkasim.model.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    Record,
    TopicPartition,
    record_size,
)
from kafkasim.model.transaction.metadata import TransactionMetadata, TxnTransitMetadata
from kafkasim.model.transaction.states import EMPTY, TransactionState
from kafkasim.model.values import value

FLEXIBLE = 1  # the transaction.version from which values have tagged fields


@value
class TransactionLogKey:
    transactional_id: str


@value
class TransactionLogValue:
    """A transactional id after a change."""

    producer_id: int
    producer_epoch: int
    transaction_timeout_ms: int
    transaction_status: TransactionState
    transaction_partitions: tuple[TopicPartition, ...] | None  # None: no transaction (Empty)
    transaction_last_update_timestamp_ms: int
    transaction_start_timestamp_ms: int
    client_transaction_version: int  # 0 in a value of version 0


def transaction_record(
    transactional_id: str, transit: TxnTransitMetadata, transaction_version: int, now_ms: int
) -> Record:
    """Return the record of prepared metadata (TransactionLog.valueToBytes)."""
    assert transit.state is not EMPTY or not transit.partitions, transit
    flexible = transaction_version >= FLEXIBLE
    metadata = TransactionLogValue(
        transit.producer_id,
        transit.producer_epoch,
        transit.txn_timeout_ms,
        transit.state,
        None if transit.state is EMPTY else transit.partitions,
        transit.last_update_timestamp_ms,
        transit.start_timestamp_ms,
        transit.client_transaction_version if flexible else 0,
    )
    size = _flexible_size(metadata) if flexible else _size(metadata)
    size = record_size(_key_size(transactional_id), size, 0, 0)
    return Record(TransactionLogKey(transactional_id), metadata, size, now_ms)


def tombstone(transactional_id: str, delta: int, now_ms: int) -> Record:
    """Return the record by which an id expires; ``delta`` is its place in the batch."""
    size = record_size(_key_size(transactional_id), -1, delta, 0)
    return Record(TransactionLogKey(transactional_id), None, size, now_ms)


def metadata_of(transactional_id: str, logged: TransactionLogValue) -> TransactionMetadata:
    """Return the metadata that a record describes (TransactionLog.readTxnRecordValue)."""
    return TransactionMetadata(
        transactional_id,
        TxnTransitMetadata(
            logged.producer_id,
            NO_PRODUCER_ID,
            NO_PRODUCER_ID,
            logged.producer_epoch,
            NO_PRODUCER_EPOCH,
            logged.transaction_timeout_ms,
            logged.transaction_status,
            logged.transaction_partitions or (),
            logged.transaction_start_timestamp_ms,
            logged.transaction_last_update_timestamp_ms,
            logged.client_transaction_version,
        ),
    )


def _key_size(transactional_id: str) -> int:
    return 4 + len(transactional_id)


def _by_topic(logged: TransactionLogValue) -> dict[str, int]:
    by_topic: dict[str, int] = {}
    for tp in logged.transaction_partitions or ():
        by_topic[tp.topic] = by_topic.get(tp.topic, 0) + 1
    return by_topic


def _size(logged: TransactionLogValue) -> int:
    topics = [6 + len(topic) + 4 * count for topic, count in _by_topic(logged).items()]
    return 37 + sum(topics)


def _flexible_size(logged: TransactionLogValue) -> int:
    topics = [3 + len(topic) + 4 * count for topic, count in _by_topic(logged).items()]
    return 35 + sum(topics) + (4 if logged.client_transaction_version else 0)
