"""What the coordinator knows of one transactional id (TransactionMetadata, TxnTransitMetadata).

A change takes two steps. A ``prepare_…`` method returns the metadata to come and notes its state as
pending; until then nothing else may change (CONCURRENT_TRANSACTIONS). When the record is committed,
:meth:`TransactionMetadata.complete_transition_to` puts it into effect. A legal change is one of the
table :data:`~kafkasim.model.transaction.states.PREDECESSORS`; another one is a bug and stops the
run, as IllegalStateException does in Kafka.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID, TopicPartition
from kafkasim.model.transaction.states import (
    AT_REST,
    COMPLETE_ABORT,
    COMPLETE_COMMIT,
    DEAD,
    DECIDED,
    EMPTY,
    ONGOING,
    PREDECESSORS,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    PREPARE_EPOCH_FENCE,
    TransactionState,
)
from kafkasim.model.values import value

MAX_EPOCH = 2**15 - 1
NO_TIMESTAMP = -1
EPOCH_BUMP = 2  # the transaction.version that raises the epoch with each transaction (KIP-890)


def is_epoch_exhausted(epoch: int) -> bool:
    """Return whether a producer may not get the next epoch: the last one is for fencing."""
    return epoch >= MAX_EPOCH - 1


@value
class TxnTransitMetadata:
    """A transactional id as it will be once its record is committed."""

    producer_id: int
    previous_producer_id: int  # that the client had before the epochs of it were exhausted; or −1
    next_producer_id: int  # that the client gets when this transaction is complete; or −1
    producer_epoch: int
    last_producer_epoch: int  # that the client had before; −1: a client with it is fenced
    txn_timeout_ms: int
    state: TransactionState
    partitions: tuple[TopicPartition, ...]
    start_timestamp_ms: int  # of the transaction, −1 outside of one
    last_update_timestamp_ms: int
    client_transaction_version: int  # that the last change was made under


class TransactionMetadata:
    """The current metadata of one transactional id, and what is pending."""

    __slots__ = ("current", "has_failed_epoch_fence", "partitions", "pending", "transactional_id")

    def __init__(self, transactional_id: str, current: TxnTransitMetadata) -> None:
        self.transactional_id = transactional_id
        self.current = current
        # Those of ``current`` that wait for their marker, once the outcome is decided.
        self.partitions: dict[TopicPartition, None] = dict.fromkeys(current.partitions)
        self.pending: TransactionState | None = None
        # A record that fences was perhaps not written: its epoch is not raised again (KAFKA-9666).
        self.has_failed_epoch_fence = False

    @property
    def state(self) -> TransactionState:
        """The state that is in effect."""
        return self.current.state

    @property
    def producer_id(self) -> int:
        """The producer id that the client must have."""
        return self.current.producer_id

    @property
    def producer_epoch(self) -> int:
        """The epoch that the client must have, −1 before the first InitProducerId is committed."""
        return self.current.producer_epoch

    def fence(self, epoch: int) -> None:
        """Take a fencing epoch before its record is written; nothing is pending any more."""
        assert self.pending is PREPARE_EPOCH_FENCE, (self.transactional_id, self.pending)
        self.pending = None
        self.current = replace(
            self.current, producer_epoch=epoch, last_producer_epoch=NO_PRODUCER_EPOCH
        )

    # ------------------------------------------------------------------- the metadata to come

    def prepare_fence_producer_epoch(self, epoch: int) -> TxnTransitMetadata:
        """Prepare to abort the open transaction under an epoch that its producer has not."""
        return self._prepare(PREPARE_EPOCH_FENCE, producer_epoch=epoch)

    def prepare_increment_producer_epoch(
        self, txn_timeout_ms: int, expected_epoch: int | None, now_ms: int
    ) -> TxnTransitMetadata | Errors:
        """Prepare the next epoch for a producer that has ``expected_epoch`` (None: a new one).

        PRODUCER_FENCED if another producer was initialized since. A producer whose last epoch that
        was gets the current one: it repeats a request of which it did not see the answer (KIP-360).
        """
        current = self.current
        epoch, last = current.producer_epoch, NO_PRODUCER_EPOCH
        assert not is_epoch_exhausted(epoch), (self.transactional_id, epoch)
        if expected_epoch is None:
            epoch += 1
        elif epoch in (NO_PRODUCER_EPOCH, expected_epoch):
            epoch, last = epoch + 1, epoch
        elif expected_epoch == current.last_producer_epoch:
            last = expected_epoch
        else:
            return Errors.PRODUCER_FENCED
        return self._prepare_empty(current.producer_id, epoch, last, txn_timeout_ms, now_ms)

    def prepare_producer_id_rotation(
        self, producer_id: int, txn_timeout_ms: int, now_ms: int, keeps_last_epoch: bool
    ) -> TxnTransitMetadata:
        """Prepare another producer id, because the epochs of this one are exhausted."""
        assert self.state in AT_REST, (self.transactional_id, self.state)
        last = self.current.producer_epoch if keeps_last_epoch else NO_PRODUCER_EPOCH
        return self._prepare_empty(producer_id, 0, last, txn_timeout_ms, now_ms)

    def _prepare_empty(
        self, producer_id: int, epoch: int, last_epoch: int, txn_timeout_ms: int, now_ms: int
    ) -> TxnTransitMetadata:
        return self._prepare(
            EMPTY,
            producer_id=producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last_epoch,
            txn_timeout_ms=txn_timeout_ms,
            partitions=(),
            start_timestamp_ms=NO_TIMESTAMP,
            last_update_timestamp_ms=now_ms,
        )

    def prepare_add_partitions(
        self, added: tuple[TopicPartition, ...], now_ms: int, client_version: int
    ) -> TxnTransitMetadata:
        """Prepare to take partitions into the transaction, which they begin if none is open."""
        begins = self.state in AT_REST
        return self._prepare(
            ONGOING,
            partitions=tuple(dict.fromkeys([*self.partitions, *added])),
            start_timestamp_ms=now_ms if begins else self.current.start_timestamp_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_version,
        )

    def prepare_abort_or_commit(
        self,
        state: TransactionState,
        client_version: int,
        next_producer_id: int,
        now_ms: int,
        no_partition_added: bool,
    ) -> TxnTransitMetadata | Errors:
        """Prepare the decision; under transaction.version 2 it raises the epoch (KIP-890).

        UNKNOWN_SERVER_ERROR under the highest epoch: the next one overflows, and
        prepareTransitionTo throws IllegalArgumentException.
        """
        current = self.current
        epoch, last = current.producer_epoch, current.last_producer_epoch
        if client_version >= EPOCH_BUMP:
            if epoch == MAX_EPOCH:
                return Errors.UNKNOWN_SERVER_ERROR
            epoch, last = epoch + 1, epoch
        return self._prepare(
            state,
            next_producer_id=next_producer_id,
            producer_epoch=epoch,
            last_producer_epoch=last,
            start_timestamp_ms=now_ms if no_partition_added else current.start_timestamp_ms,
            last_update_timestamp_ms=now_ms,
            client_transaction_version=client_version,
        )

    def prepare_complete(self, now_ms: int) -> TxnTransitMetadata:
        """Prepare the end: all markers will be written. The client may get a new producer id."""
        self.has_failed_epoch_fence = False
        current = self.current
        producer_id, epoch = current.producer_id, current.producer_epoch
        if (
            current.client_transaction_version >= EPOCH_BUMP
            and current.next_producer_id != NO_PRODUCER_ID
        ):
            producer_id, epoch = current.next_producer_id, 0
        return self._prepare(
            COMPLETE_COMMIT if self.state is PREPARE_COMMIT else COMPLETE_ABORT,
            producer_id=producer_id,
            producer_epoch=epoch,
            partitions=(),
            last_update_timestamp_ms=now_ms,
        )

    def prepare_dead(self) -> TxnTransitMetadata:
        """Prepare the expiry of the id."""
        return self._prepare(DEAD, partitions=())

    def _prepare(self, state: TransactionState, **changes: Any) -> TxnTransitMetadata:
        """Note a state as pending, and return the metadata that comes with it."""
        changes = {
            "previous_producer_id": self.producer_id,
            "next_producer_id": NO_PRODUCER_ID,
            "partitions": tuple(self.partitions),
            **changes,
        }
        transit = replace(self.current, state=state, **changes)
        assert self.pending is None, (self.transactional_id, self.pending, transit)
        assert self.state in PREDECESSORS[state], (self.state, transit)
        assert transit.producer_id >= 0, transit
        assert transit.producer_epoch >= 0 or state is DEAD, transit
        self.pending = state
        return transit

    # -------------------------------------------------------------------------- the change

    def remove_partition(self, tp: TopicPartition) -> None:
        """Take note that a partition has its marker."""
        assert self.state in DECIDED, (self.transactional_id, self.state, tp)
        self.partitions.pop(tp, None)

    def complete_transition_to(self, transit: TxnTransitMetadata) -> None:
        """Put prepared metadata into effect: its record is committed."""
        assert self.pending is transit.state, (self.transactional_id, self.pending, transit)
        assert self._may_become(transit), (self.transactional_id, self.current, transit)
        self.current = replace(transit, **self._kept(transit))
        self.partitions = dict.fromkeys(transit.partitions)
        self.pending = None

    def _kept(self, to: TxnTransitMetadata) -> dict[str, Any]:
        """Return what a change leaves as it is in memory, though its record has it otherwise.

        A new producer of an id has the start of the last transaction until its own begins. The
        producer id before is that of the last rotation, or of the last transaction of version 2.
        """
        kept: dict[str, Any] = {}
        completes = to.state in (COMPLETE_COMMIT, COMPLETE_ABORT)
        if to.state is EMPTY:
            kept["start_timestamp_ms"] = self.current.start_timestamp_ms
        elif not completes or to.client_transaction_version < EPOCH_BUMP:
            kept["previous_producer_id"] = self.current.previous_producer_id
        return kept

    def _may_become(self, to: TxnTransitMetadata) -> bool:
        current, state = self.current, to.state
        if state is EMPTY:
            bumped = to.producer_epoch == current.producer_epoch + 1
            rotated = to.producer_epoch == 0 and to.producer_id != current.producer_id
            epoch = to.producer_epoch == current.producer_epoch or bumped or rotated
            return epoch and not to.partitions and to.start_timestamp_ms == NO_TIMESTAMP
        if not self._epoch_may_become(to) or to.txn_timeout_ms != current.txn_timeout_ms:
            return False
        if state is ONGOING:
            return set(self.partitions) <= set(to.partitions)
        if state in DECIDED:
            empty_abort = (
                state is PREPARE_ABORT
                and to.client_transaction_version >= EPOCH_BUMP
                and self.state in AT_REST
            )
            same_start = to.start_timestamp_ms == current.start_timestamp_ms
            return tuple(self.partitions) == to.partitions and (same_start or empty_abort)
        return state in (COMPLETE_COMMIT, COMPLETE_ABORT) and to.start_timestamp_ms != NO_TIMESTAMP

    def _epoch_may_become(self, to: TxnTransitMetadata) -> bool:
        current = self.current
        if to.client_transaction_version >= EPOCH_BUMP:
            if to.state in (COMPLETE_COMMIT, COMPLETE_ABORT) and to.producer_epoch == 0:
                kept = to.last_producer_epoch == current.last_producer_epoch
                return kept and to.previous_producer_id == current.producer_id
            if to.state in DECIDED:
                same_id = to.producer_id == current.producer_id
                return same_id and to.last_producer_epoch == current.producer_epoch
        same_epoch = to.producer_epoch == current.producer_epoch
        return same_epoch and to.producer_id == current.producer_id
