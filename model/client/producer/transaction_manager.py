"""The producer id, its epoch and the sequences: Kafka's TransactionManager (KIP-98, KIP-360).

The manager asks for a producer id and decides which batch may go out with which sequence. After a
gap in the sequences that no retry can close, it bumps the epoch on the client and numbers the
in-flight batches of that partition from 0. Other partitions take the new epoch once their own
in-flight batches are done. After epoch 32767 the manager asks for a new id, whose first epoch
serves as the bump (bumpIdempotentProducerEpoch). The sequences of a partition are in its
TxnPartitionEntry (``batches.py``).

Not modelled: transactions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.net.connections import Connections, backoff_us
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
)
from kafkasim.model.records import NO_PRODUCER_ID, NO_SEQUENCE, add_sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.producer.batches import ProducerBatch, TxnPartitionEntry
    from kafkasim.model.client.rules import ClientRules

MAX_EPOCH = 2**15 - 1
MAX_INT = 2**31 - 1


class TransactionManager:
    """The idempotent half of Kafka's class."""

    def __init__(self, connections: Connections, rules: ClientRules) -> None:
        self._connections = connections
        self._process = connections.process
        self._rules = rules
        self.id_assigned: list[Callable[[int], None]] = []  # called with ``now``
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.work_pending = False  # resolve_sequences() has something to do
        self._unresolved: dict[TxnPartitionEntry, None] = {}  # partitionsWithUnresolvedSequences
        self._to_rewrite: dict[TxnPartitionEntry, None] = {}  # partitionsToRewriteSequences
        self._id_requested = False
        self._attempts = 0
        self._key = ("init-producer-id", connections.name)

    # The producer id.

    def request_producer_id(self, now: int) -> None:
        """Ask any broker for a producer id, unless there is one or a request is under way."""
        if self.producer_id != NO_PRODUCER_ID or self._id_requested:
            return
        self._id_requested = True
        channel = self._connections.least_loaded(now)
        if channel is None:
            self._retry(max(now + 1, self._connections.next_attempt()))
            return
        channel.send(InitProducerIdRequest(None, MAX_INT), now, self._on_response)

    def _on_response(self, response: Any, now: int) -> None:
        if not isinstance(response, InitProducerIdResponse) or response.error:
            self._attempts += 1
            config, rng = self._connections.config, self._process.rng
            self._retry(now + backoff_us(config, self._attempts, rng))
            return
        self._id_requested = False
        self._attempts = 0
        self.producer_id = response.producer_id
        self.producer_epoch = response.producer_epoch
        self._rewrite_sequences()  # those of a bump that took a new id
        if self.work_pending:
            self.resolve_sequences(now)
        for callback in self.id_assigned:
            callback(now)

    def _retry(self, deadline: int) -> None:
        self._process.timers.arm(self._key, deadline, "main", self._on_retry)

    def _on_retry(self, now: int) -> None:
        self._id_requested = False
        self.request_producer_id(now)

    # Sending.

    def may_send(self, batch: ProducerBatch, now: int) -> bool:
        """Return whether the first batch of a queue may be sent now.

        Models RecordAccumulator.shouldStopDrainBatchesForPartition.
        """
        if self.producer_id == NO_PRODUCER_ID:
            self.request_producer_id(now)
            return False
        entry = batch.queue.sequences
        if batch.base_sequence != NO_SEQUENCE:  # a retry: only the first in flight
            return entry.in_flight[0] is batch
        if entry.unresolved is not None:
            return False
        return not (
            entry.in_flight
            and not self._is_current(entry)
            and self._rules.new_epoch_waits_for_in_flight()
        )

    def assign_sequence(self, batch: ProducerBatch) -> None:
        """Give its sequence to a batch that is sent for the first time."""
        entry = batch.queue.sequences
        if not self._is_current(entry):
            self._start_at_beginning(entry)
        sequence = entry.next_sequence
        batch.producer_id = entry.producer_id
        batch.producer_epoch = entry.producer_epoch
        batch.base_sequence = sequence
        entry.next_sequence = add_sequence(sequence, len(batch.records))
        entry.in_flight.append(batch)

    def _is_current(self, entry: TxnPartitionEntry) -> bool:
        """Return whether a partition's sequences belong to the current producer id and epoch."""
        return entry.producer_epoch == self.producer_epoch and entry.producer_id == self.producer_id

    def _start_at_beginning(self, entry: TxnPartitionEntry) -> None:
        """Number a partition's in-flight batches from 0 (startSequencesAtBeginning)."""
        entry.producer_id = self.producer_id
        entry.producer_epoch = self.producer_epoch
        sequence = 0
        for batch in entry.in_flight:
            batch.set_sequence(self.producer_id, self.producer_epoch, sequence)
            batch.sequence_reset = True
            sequence += len(batch.records)
        entry.next_sequence = sequence
        entry.last_acked_sequence = -1

    # Results.

    def on_completed(self, batch: ProducerBatch) -> None:
        """Note that a batch was acknowledged (handleCompletedBatch)."""
        entry = batch.queue.sequences
        if batch.producer_epoch == entry.producer_epoch and batch.producer_id == entry.producer_id:
            last = batch.base_sequence + len(batch.records) - 1
            if last > MAX_INT:
                entry.last_acked_sequence = batch.last_sequence
            elif last > entry.last_acked_sequence or entry.last_acked_sequence - last > 1 << 30:
                entry.last_acked_sequence = last
        entry.remove(batch)

    def on_failed(self, batch: ProducerBatch, error: Errors, adjust: bool) -> None:
        """Note that a batch was given up (handleFailedBatch).

        ``adjust``: the sequence is known not to have been appended, so that the partition needs a
        new epoch to go on.
        """
        if batch.base_sequence == NO_SEQUENCE:
            return
        entry = batch.queue.sequences
        entry.remove(batch)
        if adjust or error in (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID):
            self._request_epoch_bump(entry)

    def on_expired(self, batch: ProducerBatch, in_retry: bool) -> None:
        """Note that a batch expired. If it was sent, its records may be in the log or not.

        If it was put back for a retry, its sequence is unresolved (markSequenceUnresolved): the
        partition sends nothing new until its other in-flight batches have their results. In its
        first attempt it is only forgotten, as Sender.sendProducerData does (ProducerBatch.inRetry).
        """
        if batch.base_sequence == NO_SEQUENCE:
            return
        entry = batch.queue.sequences
        entry.remove(batch)
        if not in_retry:
            return
        after = add_sequence(batch.base_sequence, len(batch.records))
        entry.unresolved = after if entry.unresolved is None else max(entry.unresolved, after)
        self._unresolved[entry] = None
        self.work_pending = True

    def can_retry(self, batch: ProducerBatch, response: ProducePartitionResponse) -> bool:
        """Return whether a refused batch may be sent again (TransactionManager.canRetry)."""
        entry = batch.queue.sequences
        error = response.error
        if error is Errors.UNKNOWN_PRODUCER_ID:
            if response.log_start_offset != -1 and not batch.sequence_reset:
                self._request_epoch_bump(entry)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER and not batch.sequence_reset:
            expected = add_sequence(entry.last_acked_sequence, 1)
            if entry.unresolved is None:
                if batch.base_sequence == expected:  # the gap is real
                    self._request_epoch_bump(entry)
            elif batch.base_sequence == entry.unresolved:
                self._request_epoch_bump(entry)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Renumbered while this attempt was in flight: the response is for the old sequence.
            batch.sequence_reset = False
            return True
        return error in RETRIABLE

    def _request_epoch_bump(self, entry: TxnPartitionEntry) -> None:
        """Have the epoch bumped before the next request; the partition then starts at 0."""
        self._to_rewrite[entry] = None
        self.work_pending = True

    def resolve_sequences(self, now: int) -> None:
        """Resolve the sequences of expired batches, then bump the epoch if a partition needs it.

        Models maybeResolveSequences and bumpIdempotentEpochAndResetIdIfNeeded, which Kafka's Sender
        calls in each runOnce.
        """
        for entry in list(self._unresolved):
            if entry.in_flight:
                continue
            del self._unresolved[entry]
            entry.unresolved = None
            if entry.next_sequence != add_sequence(entry.last_acked_sequence, 1):
                self._to_rewrite[entry] = None
        self.work_pending = bool(self._unresolved)
        if not self._to_rewrite or self.producer_id == NO_PRODUCER_ID:
            return
        if self.producer_epoch == MAX_EPOCH:  # resetIdempotentProducerId
            self.producer_id = NO_PRODUCER_ID
            self.producer_epoch = -1
            self.request_producer_id(now)
            return
        self.producer_epoch += 1
        self._rewrite_sequences()

    def _rewrite_sequences(self) -> None:
        """Number the partitions that caused an epoch bump, or a new id, from 0."""
        for entry in self._to_rewrite:
            self._start_at_beginning(entry)
            entry.unresolved = None
            self._unresolved.pop(entry, None)
        self._to_rewrite.clear()
