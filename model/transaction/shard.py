"""The transactional ids of one partition of ``__transaction_state``, and appends under way.

Kafka: TxnMetadataCacheEntry, and the DelayedProduce operations of the partition.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.errors import Errors
from kafkasim.model.records import Record, RecordBatch
from kafkasim.model.transaction.metadata import TransactionMetadata
from kafkasim.model.transaction.records import TransactionLogKey, TransactionLogValue, metadata_of

Appended = Callable[[Errors, int], None]  # (error, now)


class PendingAppend:
    """A record in the log that calls ``done(error, now)`` when it is committed, or too late."""

    __slots__ = ("deadline_us", "done", "end_offset")

    def __init__(self, end_offset: int, deadline_us: int, done: Appended) -> None:
        self.end_offset = end_offset
        self.deadline_us = deadline_us  # each id has its own: the timeout of its transactions
        self.done = done


class TransactionShard:
    """The coordinator's state of one partition under one tenure of this broker."""

    __slots__ = ("appends", "context", "transactions")

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context
        self.transactions: dict[str, TransactionMetadata] = {}
        self.appends: deque[PendingAppend] = deque()  # in the order of the log

    def replay_transactional(self, batch: RecordBatch, _now_ms: int) -> None:
        """Fail: the coordinator writes its own log without transactions."""
        raise AssertionError(batch)

    def replay(self, record: Record, _end_offset: int, _now_ms: int) -> None:
        """Apply a record while the partition is loaded."""
        key, logged = record.key, record.value
        assert type(key) is TransactionLogKey, record
        if logged is None:
            self.transactions.pop(key.transactional_id, None)
        else:
            assert type(logged) is TransactionLogValue, record
            self.transactions[key.transactional_id] = metadata_of(key.transactional_id, logged)
