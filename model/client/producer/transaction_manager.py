"""The idempotent half of Kafka's TransactionManager (KIP-98, KIP-360).

The manager asks for a producer id and decides which batch may go out with which sequence. After a
gap in the sequences that no retry can close, it bumps the epoch on the client and numbers the
in-flight batches of that partition from 0. Other partitions take the new epoch once their own
in-flight batches are done. After epoch 32767 the manager asks for a new id, whose first epoch
serves as the bump (bumpIdempotentProducerEpoch). The numbering is in ``sequences.py``; the half for
producers with a transactional.id is ``transactions/manager.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.net.connections import Connections
from kafkasim.model.client.producer.sequences import MAX_INT, ProducerSequences
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.facts import EpochBegun, SequencesRewritten
from kafkasim.model.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
)
from kafkasim.model.records import NO_PRODUCER_ID, NO_SEQUENCE

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.producer.batches import ProducerBatch, TxnPartitionEntry
    from kafkasim.model.client.producer.transactions.sending import Batches
    from kafkasim.model.client.rules import ClientRules

MAX_EPOCH = 2**15 - 1


class TransactionManager:
    """The idempotent half of Kafka's class."""

    def __init__(self, connections: Connections, rules: ClientRules, batches: Batches) -> None:
        self._connections = connections
        self._process = connections.process
        renumbers_idle = rules.new_epoch_renumbers_idle()
        self._sequences = sequences = ProducerSequences(rules, renumbers_idle)
        sequences.epoch_begun = self._tell_epoch
        self.assign_sequence = sequences.assign
        self.on_completed = sequences.on_completed
        self.unblocked: list[Callable[[int], None]] = []  # batches may go that may_send held back
        self.transactional_id: str | None = None
        self.transaction_version = 0
        self.work_pending = False  # resolve_sequences() has something to do
        self._to_rewrite: dict[TxnPartitionEntry, None] = {}  # partitionsToRewriteSequences
        self._id_requested = False
        self._batches = batches
        self._key = ("init-producer-id", connections.name)

    # The producer id.

    def request_producer_id(self, now: int) -> None:
        """Ask any broker for a producer id, unless there is one or a request is under way."""
        if self._sequences.producer_id != NO_PRODUCER_ID or self._id_requested:
            return
        self._id_requested = True
        channel = self._connections.least_loaded(now)
        if channel is None:
            self._retry(max(now + 1, self._connections.next_attempt()))
            return
        channel.send(InitProducerIdRequest(None, MAX_INT), now, self._on_response)

    def _on_response(self, response: Any, now: int) -> None:
        if getattr(response, "error", None) is Errors.CLUSTER_AUTHORIZATION_FAILED:
            self._refuse(now)
            return
        if not isinstance(response, InitProducerIdResponse) or response.error:
            self._retry(now + self._connections.config.retry_backoff_ms * 1000)
            return
        self._id_requested = False
        self._sequences.set_id(response.producer_id, response.producer_epoch)
        self._rewrite_sequences()  # those of a bump that took a new id
        if self.work_pending:
            self.resolve_sequences(now)
        for callback in self.unblocked:
            callback(now)

    def _refuse(self, now: int) -> None:
        """Give up what is to be sent, and ask again for the next batch (KAFKA-13668).

        Models Sender.shouldHandleAuthorizationError. Kafka asks again at once, without a backoff.
        """
        self._id_requested = False
        self._batches.abort(Errors.CLUSTER_AUTHORIZATION_FAILED.name, False, now)

    def _retry(self, deadline: int) -> None:
        self._process.timers.arm(self._key, deadline, "main", self._on_retry)

    def _on_retry(self, now: int) -> None:
        self._id_requested = False
        self.request_producer_id(now)

    # Sending.

    def may_send(self, batch: ProducerBatch, now: int) -> bool:
        """Return whether the first batch of a queue may be sent now."""
        if self._sequences.producer_id == NO_PRODUCER_ID:
            self.request_producer_id(now)
            return False
        return self._sequences.may_send(batch)

    # Results.

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

        If it was put back for a retry, its sequence is unresolved. In its first attempt it is only
        forgotten, as Sender.sendProducerData does (ProducerBatch.inRetry).
        """
        if batch.base_sequence == NO_SEQUENCE:
            return
        batch.queue.sequences.remove(batch)
        if in_retry:
            self._sequences.mark_unresolved(batch)
            self.work_pending = True

    def can_retry(self, batch: ProducerBatch, response: ProducePartitionResponse) -> bool:
        """Return whether a refused batch may be sent again (TransactionManager.canRetry)."""
        entry = batch.queue.sequences
        error = response.error
        if error is Errors.UNKNOWN_PRODUCER_ID:
            if response.log_start_offset != -1 and not batch.sequence_reset:
                self._request_epoch_bump(entry)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            if self._sequences.is_out_of_turn(batch):
                return True
            if entry.unresolved is None or entry.unresolved == batch.base_sequence:
                self._request_epoch_bump(entry)  # the gap is real
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
        sequences = self._sequences
        for entry in sequences.resolve():
            self._to_rewrite[entry] = None
        self.work_pending = bool(sequences.unresolved)
        if not self._to_rewrite or sequences.producer_id == NO_PRODUCER_ID:
            return
        if sequences.producer_epoch == MAX_EPOCH:  # resetIdempotentProducerId
            sequences.set_id(NO_PRODUCER_ID, -1)
            self.request_producer_id(now)
            return
        sequences.producer_epoch += 1
        self._rewrite_sequences()

    def _rewrite_sequences(self) -> None:
        """Number the partitions that caused an epoch bump, or a new id, from 0."""
        for entry in self._to_rewrite:
            self._sequences.start_at_beginning(entry)
            if entry.in_flight:
                self._tell_rewritten(entry)
            entry.unresolved = None
            self._sequences.unresolved.pop(entry, None)
        self._to_rewrite.clear()

    def _tell_rewritten(self, entry: TxnPartitionEntry) -> None:
        batches = entry.in_flight
        self._process.out.append(
            SequencesRewritten(
                batches[0].topic_id,
                batches[0].queue.tp.partition,
                entry.producer_id,
                entry.producer_epoch,
                tuple([record_id for batch in batches for record_id in batch.record_ids]),
            )
        )

    def _tell_epoch(self, batch: ProducerBatch) -> None:
        """Tell with which sequence a partition begins an epoch that was raised."""
        if batch.producer_epoch > 0:
            self._process.out.append(
                EpochBegun(
                    batch.topic_id,
                    batch.queue.tp.partition,
                    batch.producer_id,
                    batch.producer_epoch,
                    batch.base_sequence,
                )
            )
